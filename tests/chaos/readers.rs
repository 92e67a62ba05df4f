//! The readers of dlock's messages and events, which a fault can stop.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// Byte that fills the pipe of a stopped reader of messages. No message contains this byte.
pub(crate) const FILLER: u8 = 0;

/// Interval at which a stopped reader checks whether it may read again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the file that exists while the readers of `run` must not read.
pub(crate) fn deaf_file(folder: &Path, run: u64) -> PathBuf {
    folder.join("deaf").join(run.to_string())
}

/// Waits while the file `deaf_file` exists, unless dlock has ended.
pub(crate) fn wait_to_read(deaf_file: &Path, has_ended: &AtomicBool) {
    while deaf_file.exists() && !has_ended.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns what is written to the standard error of a run, until no process has the write end of the pipe open.
pub(crate) fn read_stderr(
    mut pipe: PipeReader,
    deaf_file: &Path,
    has_ended: &AtomicBool,
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        wait_to_read(deaf_file, has_ended);
        let length = pipe.read(&mut buffer)?;
        if length == 0 {
            return Ok(text);
        }
        let bytes = buffer[..length].iter();
        text.extend(bytes.filter(|byte| **byte != FILLER));
    }
}

/// Fills the pipe that is open as `path` with `byte` until nothing more can be written.
pub(crate) fn fill(path: &Path, byte: u8) -> io::Result<()> {
    // This file description is a new one, because the run's own file description must remain blocking.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = (OpenOptions::new().write(true).custom_flags(flags)).open(path)?;
    for length in [4096, 1] {
        while pipe.write(&[byte; 4096][..length]).is_ok() {}
    }
    Ok(())
}
