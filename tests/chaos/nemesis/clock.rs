//! Faults of a server's clock, by libfaketime: the clock is set, or runs at a wrong rate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{RECOVERY, begin};
use crate::fault_kind::FaultKind;
use crate::history::{Micros, now};
use crate::processes;
use crate::run_context::RunContext;
use crate::schedule::steps;
use crate::testbed::Site;

/// The setting for the true time. Without a rate the previous rate would stay.
const RIGHT: &str = "+0 x1";

/// An hour, in seconds.
const HOUR: f64 = 3_600.0;

/// A clock that tests may set.
pub(crate) struct Clock {
    file: PathBuf,
    library: PathBuf,
    /// Start time of the server; rates count from there.
    started: Micros,
}

impl Clock {
    /// Creates a correct clock whose setting is a file in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        let fetch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/fetch");
        let found = Command::new(fetch)
            .args(["--path", "libfaketimeMT.so.1"])
            .output()
            .expect("the script can be run");
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

    /// Returns the environment variables of a server with this clock.
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

    /// Binds the clock to the server with this process id.
    pub(crate) fn belongs_to(&mut self, pid: u32) {
        self.started = processes::started(pid).expect("the server runs");
    }

    /// Returns the setting of a clock that has the fault `kind` from now on.
    fn setting(&self, kind: FaultKind) -> String {
        let age = Duration::from_micros(now() - self.started).as_secs_f64();
        // The library applies a rate to the server's whole life; the offset undoes this for the past.
        let (offset, rate) = match kind {
            FaultKind::HourForward => (HOUR, 1.0),
            FaultKind::HourBack => (-HOUR, 1.0),
            FaultKind::DoubleSpeed => (-age, 2.0),
            _ => (age / 2.0, 0.5),
        };
        format!("{offset:+.3} x{rate}")
    }

    fn set(&self, to: &str) {
        // Replaced atomically: the server reads the file at any time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{to}\n")).expect("the clock can be set");
        fs::rename(&new, &self.file).expect("the clock can be set");
    }

    /// Causes faults of `kinds` until the fault phase ends; the clock is corrected after each.
    pub(crate) fn rage(&self, context: &RunContext, site: &Site, kinds: &[FaultKind]) {
        for step in steps(context.seed, &site.name, kinds) {
            if !context.fault_phase.pause(step.pause) {
                return;
            }
            let fault = begin(context, site, step.kind, None, None, None);
            self.set(&self.setting(step.kind));
            let length = step.kind.length(Duration::from_secs(3), step.severity);
            context.fault_phase.pause(length);
            self.set(RIGHT);
            let at = fault.at;
            let _ = fault.end(context, true);
            context.live_runs.goes_on(&site.actions, at, RECOVERY);
        }
    }
}
