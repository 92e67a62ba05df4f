//! Blocks a command until the benchmark releases it. The command reads a fifo whose write end this process keeps open.
//! If this process ends for any reason, the kernel closes the write end, so the command also ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// Maximum time until a condition becomes true. Even a busy machine normally needs far less time.
const TIMEOUT: Duration = Duration::from_mins(2);

pub fn make_fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a fifo can be created");
}

/// Waits until a process has opened `fifo` for reading. Returns the write end.
pub fn wait_for_reader(fifo: &Path) -> File {
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
pub fn eventually(what: &str, pause: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timed out: {what}");
        thread::sleep(pause);
    }
}
