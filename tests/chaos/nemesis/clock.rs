//! A server's clock that is set and that runs at a wrong rate, by way of libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{RECOVERY, begin};
use crate::course::Course;
use crate::history::{Micros, now};
use crate::kind::Kind;
use crate::processes;
use crate::schedule::steps;
use crate::site::Site;

/// The clock as it is by itself. The rate has to be said, or the one before would stay.
const RIGHT: &str = "+0 x1";

/// An hour, in seconds.
const HOUR: f64 = 3_600.0;

/// A clock that tests may set.
pub(crate) struct Clock {
    file: PathBuf,
    library: PathBuf,
    /// When its server was started: rates count from there.
    started: Micros,
}

impl Clock {
    /// A clock whose setting is in `folder`, as yet right.
    pub(crate) fn new(folder: &Path) -> Self {
        let fetch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/fetch");
        let found = Command::new(fetch)
            .args(["--path", "libfaketimeMT.so.1"])
            .output()
            .expect("the script runs");
        let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let why = String::from_utf8_lossy(&found.stderr);
        assert!(found.status.success(), "no libfaketime: {why}");
        let clock = Self {
            file: folder.join("clock"),
            library: path.into(),
            started: now(),
        };
        clock.set(RIGHT);
        clock
    }

    /// What a server that is to have this clock needs in its environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "DLOCK_TEST_SERVER_PRELOAD",
                self.library.display().to_string(),
            ),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// Tells which server it is the clock of.
    pub(crate) fn belongs_to(&mut self, pid: u32) {
        self.started = processes::started(pid).expect("the server runs");
    }

    /// What the library is to be told for a clock that goes wrong in this way from now on.
    fn setting(&self, kind: Kind) -> String {
        let age = Duration::from_micros(now() - self.started).as_secs_f64();
        // The library applies a rate to all of the server's life; the offset takes back what that means for the past.
        let (offset, rate) = match kind {
            Kind::HourForward => (HOUR, 1.0),
            Kind::HourBack => (-HOUR, 1.0),
            Kind::DoubleSpeed => (-age, 2.0),
            _ => (age / 2.0, 0.5),
        };
        format!("{offset:+.3} x{rate}")
    }

    fn set(&self, to: &str) {
        // Replaced as a whole: the server reads it at any time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{to}\n")).expect("the clock can be set");
        fs::rename(&new, &self.file).expect("the clock can be set");
    }

    /// Sets the clock wrong and right again, in these kinds, until it is calm.
    pub(crate) fn rage(&self, course: &Course, site: &Site, kinds: &[Kind]) {
        for step in steps(course.seed, &site.name, kinds) {
            if !course.weather.pause(step.pause) {
                return;
            }
            let fault = begin(course, site, step.kind, None, None, None);
            self.set(&self.setting(step.kind));
            let length = step.kind.length(Duration::from_secs(3), step.severity);
            course.weather.pause(length);
            self.set(RIGHT);
            let at = fault.at;
            let _ = fault.end(course, true);
            course.board.goes_on(&site.actions, at, RECOVERY);
        }
    }
}
