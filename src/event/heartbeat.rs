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

/// Starts a thread that checks the modification time of `file` after every `pause`, and sends an event whenever the
/// modification time has changed.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn start(file: PathBuf, pause: Duration, events: EventSender) -> io::Result<()> {
    thread::Builder::new()
        .name("heartbeat".to_owned())
        .spawn(move || {
            let mut previous = changed_at(&file);
            loop {
                thread::park_timeout(pause);
                let current = changed_at(&file);
                let has_changed = current.is_some() && current != previous;
                previous = current;
                if has_changed && events.send(Event::Heartbeat).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Returns the modification time of `file` in seconds and nanoseconds. None if the file cannot be read.
fn changed_at(file: &PathBuf) -> Option<(i64, i64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec()))
}
