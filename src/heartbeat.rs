//! The thread that watches a file for signs of life of the command.
//!
//! A thread of its own, because the file may lie on a dead network disk, where looking takes for ever:
//! the first look too. It ends with the process. Only whether the file's time of modification is another than before
//! counts, so nobody's clock matters.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::event::Event;
use crate::event::queue::Teller;

/// Looks at `file` every `pause` and sends an event whenever it has changed.
///
/// # Errors
/// When the kernel gives no thread.
pub fn start(file: PathBuf, pause: Duration, events: Teller) -> io::Result<()> {
    thread::Builder::new()
        .name("heartbeat".to_owned())
        .spawn(move || {
            let mut before = changed_at(&file);
            loop {
                thread::park_timeout(pause);
                let now = changed_at(&file);
                let has_changed = now.is_some() && now != before;
                before = now;
                if has_changed && events.tell(Event::Heartbeat).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Seconds and nanoseconds of its last change; none if it is not there.
fn changed_at(file: &PathBuf) -> Option<(i64, i64)> {
    let facts = fs::metadata(file).ok()?;
    Some((facts.mtime(), facts.mtime_nsec()))
}
