//! How a benchmark keeps a command where it is until it is let go: by a fifo that the command reads and that this process
//! has open. When this process ends, however that happens, the command goes on and ends too.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// How long anything that must happen may take: far above what a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn make_fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("the folder takes a fifo");
}

/// Opens `fifo` for writing as soon as somebody reads it.
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
    writer.expect("it was opened")
}

/// Asks every `pause` until `condition` holds, which must be some time.
pub(crate) fn eventually(what: &str, pause: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        thread::sleep(pause);
    }
}
