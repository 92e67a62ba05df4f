//! Faults of a server's clock. libfaketime makes the clock jump or run at an incorrect rate.

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

/// The libfaketime setting for the true time. If `x1` were missing, the previous rate would remain.
const CORRECT: &str = "+0 x1";

/// An hour, in seconds.
const HOUR: f64 = 3_600.0;

/// A clock whose time and rate a test can set.
pub(crate) struct Clock {
    file: PathBuf,
    library: PathBuf,
    /// Start time of the server. libfaketime applies a rate to the time since then.
    started: Micros,
}

impl Clock {
    /// Creates a clock that shows the true time. A file in `folder` stores the setting of the clock.
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
        clock.set(CORRECT);
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

    /// Reads the start time of the server with this process id.
    pub(crate) fn bind_to(&mut self, pid: u32) {
        self.started = processes::started(pid).expect("the server runs");
    }

    /// Returns the libfaketime setting that injects the fault `kind` now.
    fn setting(&self, kind: FaultKind) -> String {
        let age = Duration::from_micros(now() - self.started).as_secs_f64();
        // libfaketime applies a rate to the whole time since the server started. The offset compensates for the time
        // before the fault.
        let (offset, rate) = match kind {
            FaultKind::HourForward => (HOUR, 1.0),
            FaultKind::HourBack => (-HOUR, 1.0),
            FaultKind::DoubleSpeed => (-age, 2.0),
            _ => (age / 2.0, 0.5),
        };
        format!("{offset:+.3} x{rate}")
    }

    fn set(&self, to: &str) {
        // The file is replaced atomically, because the server may read it at any time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{to}\n")).expect("the clock can be set");
        fs::rename(&new, &self.file).expect("the clock can be set");
    }

    /// Injects faults of `kinds` until the fault phase ends. The clock is corrected after each fault.
    pub(crate) fn inject_faults(&self, context: &RunContext, site: &Site, kinds: &[FaultKind]) {
        for step in steps(context.seed, &site.name, kinds) {
            if !context.fault_phase.pause(step.pause) {
                return;
            }
            let fault = begin(context, site, step.kind, None, None, None);
            self.set(&self.setting(step.kind));
            let length = step.kind.length(Duration::from_secs(3), step.severity);
            context.fault_phase.pause(length);
            self.set(CORRECT);
            let at = fault.at;
            let _ = fault.end(context, true);
            context
                .live_runs
                .wait_for_start(&site.actions, at, RECOVERY);
        }
    }
}
