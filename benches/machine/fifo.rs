//! Blocks a command until the benchmark releases it: the command reads a fifo whose write end this process has open. If
//! this process ends for any reason, the command continues and ends too.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// Maximum time for a condition to become true: far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn make_fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a fifo can be created");
}

/// Waits until a process has `fifo` open for reading, and opens it for writing.
pub(crate) fn reader_came(fifo: &Path) -> File {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut open = OpenOptions::new();
    open.write(true).custom_flags(flags);
    let mut writer = None;
    eventually(
        "the holder's command runs",
        Duration::from_millis(2),
        || {
            writer = open.open(fifo).ok();
            writer.is_some()
        },
    );
    writer.expect("the fifo was opened")
}

/// Checks `condition` every `pause` until it is true. Panics after two minutes.
pub(crate) fn eventually(what: &str, pause: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        thread::sleep(pause);
    }
}
