//! Faults of a server's clock. libfaketime makes the clock jump or run at an incorrect rate.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, slice};

use testkit::servers::{Flavour, Server, fetched};

use super::Machines;
use crate::fault_kind::FaultKind;
use crate::history::{Micros, now};
use crate::processes;

/// The libfaketime setting for the true time. If `x1` were missing, the previous rate would remain.
const CORRECT: &str = "+0 x1";

const HOUR: f64 = 3_600.0;

/// A server with a clock whose time and rate a test can set. The server is never restarted.
pub(crate) struct Clocked {
    server: Server,
    file: PathBuf,
    /// Start time of the server. libfaketime applies a rate to the time since then.
    started: Micros,
}

impl Clocked {
    /// Starts a server whose clock shows the true time. A file in `folder` stores the setting of the clock.
    pub(crate) fn start(flavour: Flavour, folder: &Path) -> Self {
        let file = folder.join("clock");
        set(&file, CORRECT);
        let library = fetched("libfaketimeMT.so.1");
        let environment = [
            ("DLOCK_TEST_SERVER_PRELOAD", library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // The workaround for old C libraries would make the waits of idle threads of MySQL end at once.
            ("FAKETIME_FORCE_MONOTONIC_FIX", "0".to_owned()),
        ];
        // If MySQL has a fake clock, it is slow mainly because its log threads wait for each other.
        let options = ["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"];
        let server = Server::start_in(flavour, &options, &environment);
        Self {
            started: processes::started(server.pid()).expect("the server runs"),
            server,
            file,
        }
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
}

fn set(file: &Path, to: &str) {
    // The file is replaced atomically, because the server may read it at any time.
    let new = file.with_extension("new");
    fs::write(&new, format!("{to}\n")).expect("the clock can be set");
    fs::rename(&new, file).expect("the clock can be set");
}

impl Machines for Clocked {
    fn nodes(&self) -> &[Server] {
        slice::from_ref(&self.server)
    }

    fn min_pause(&self) -> Duration {
        Duration::ZERO
    }

    /// The clock is corrected after each fault.
    fn inject(&mut self, kind: FaultKind, _: usize, pause: &dyn Fn()) {
        set(&self.file, &self.setting(kind));
        pause();
        set(&self.file, CORRECT);
    }
}
