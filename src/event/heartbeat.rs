//! The thread that watches the command's heartbeat file.
//!
//! A separate thread watches the file, because the file may be on an unreachable network file system, where every
//! `stat` may block forever, even the first. For the same reason, dlock exits without waiting for the thread. The
//! thread compares modification times only with each other, so the result does not depend on any clock.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::event::Event;
use crate::event::queue::EventSender;

/// Starts a thread that checks the modification time of `file` after every `pause`. Sends an event whenever the
/// modification time has changed, and whenever the check fails.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn start(file: PathBuf, pause: Duration, events: EventSender) -> io::Result<()> {
    thread::Builder::new()
        .name("heartbeat".to_owned())
        .spawn(move || {
            let mut previous = None;
            loop {
                let current = changed_at(&file);
                let event = match (previous.replace(current), current) {
                    (_, Err(errno)) => Some(Event::HeartbeatUnreadable(errno)),
                    (None, Ok(_)) => None,
                    (Some(previous), Ok(_)) => (previous != current).then_some(Event::Heartbeat),
                };
                if let Some(event) = event
                    && events.send(event).is_err()
                {
                    return;
                }
                thread::park_timeout(pause);
            }
        })?;
    Ok(())
}

/// Returns the modification time of `file` in seconds and nanoseconds.
///
/// # Errors
/// Returns the error number if the file cannot be read.
fn changed_at(file: &PathBuf) -> Result<(i64, i64), i32> {
    match fs::metadata(file) {
        Ok(metadata) => Ok((metadata.mtime(), metadata.mtime_nsec())),
        Err(error) => Err(error.raw_os_error().unwrap_or(0)),
    }
}
