//! The thread that keeps the metrics file up to date.
//!
//! A separate thread writes the file, because the file may be on a disk that hangs and renewals must not wait for that
//! disk. The thread has a slot for one set of facts. Newer facts replace older facts that the thread has not written
//! yet.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::RunMetrics;
use crate::sys::random;

/// Mode of the metrics file. All users may read the file, because the collector may run as a different user.
const MODE: u32 = 0o644;

/// A notification from the metrics thread.
#[derive(Debug)]
pub enum Note {
    /// The file could not be written. Sent only for the first failure.
    Failed(io::Error),
    /// The thread has handled the final facts of the run, and ends.
    Over,
}

/// A handle that sends facts to the metrics thread.
#[derive(Debug)]
pub struct Writer {
    slot: Arc<Slot>,
}

/// The state that the [`Writer`] and the metrics thread share. Each change is one assignment, so the state stays valid
/// after a panic.
#[derive(Debug, Default)]
struct Slot {
    newest: Mutex<Option<RunMetrics>>,
    changed: Condvar,
}

impl Writer {
    /// Starts the thread, which writes facts to `path`. The thread calls `notify` after the first failure and
    /// immediately before the thread ends.
    ///
    /// # Errors
    /// Fails if the kernel cannot start a thread.
    pub fn start(path: PathBuf, notify: impl Fn(Note) + Send + 'static) -> io::Result<Self> {
        let slot = Arc::<Slot>::default();
        let own = Arc::clone(&slot);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                let (mut has_failed, mut has_ended) = (false, false);
                while !has_ended {
                    let facts = own.take();
                    has_ended = facts.ended_at.is_some();
                    if let Err(error) = replace(&path, &facts.text())
                        && !has_failed
                    {
                        has_failed = true;
                        notify(Note::Failed(error));
                    }
                }
                notify(Note::Over);
            })?;
        Ok(Self { slot })
    }

    /// Passes `facts` to the thread without waiting until they are written. The thread ends after
    /// it has handled the facts of a run that has ended.
    pub fn write(&self, facts: RunMetrics) {
        // The mutex is locked only for this assignment, so a renewal never waits for the file.
        *self.slot.lock() = Some(facts);
        self.slot.changed.notify_one();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<RunMetrics>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for new facts and returns them.
    fn take(&self) -> RunMetrics {
        let mut newest = self.lock();
        loop {
            if let Some(facts) = newest.take() {
                return facts;
            }
            newest = self
                .changed
                .wait(newest)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Atomically replaces the content of the file at `path` with `text`. A reader gets either the old
/// or the new content.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // The temporary file is in the same folder, because a file cannot be moved to a different file system by renaming
    // it. The name of the temporary file starts with a dot and does not end with `.prom`, so collectors ignore the
    // file. The name is random, so another user cannot create a link with that name in advance in a folder like /tmp.
    let random: [u8; 8] = random::bytes()?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    let temporary = path.with_file_name(temporary);
    let outcome = fill(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // Remove the temporary file, but report the first error and not an error of the removal.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn fill(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    // The umask may have removed some permissions of MODE.
    file.set_permissions(Permissions::from_mode(MODE))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{Note, Writer, replace};
    use crate::metrics::RunMetrics;

    #[test]
    fn the_file_is_replaced_atomically_without_leftovers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("dlock.prom");
        replace(&path, "one").expect("the file can be written");
        replace(&path, "two").expect("the file can be written");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "two");
        let mode = fs::metadata(&path)
            .expect("the file exists")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(replace(&folder.path().join("no/such/folder"), "").is_err());
        // A folder cannot be replaced by a file.
        assert!(replace(folder.path(), "").is_err());
        let left = fs::read_dir(folder.path())
            .expect("the folder exists")
            .count();
        assert_eq!(left, 1);
    }

    #[test]
    fn the_last_facts_are_written_and_one_failure_is_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, failures) in [("dlock.prom", 0), ("no/such/folder", 1)] {
            let (sender, notes) = mpsc::channel();
            let path = folder.path().join(name);
            let notify = move |note| drop(sender.send(note));
            let writer = Writer::start(path.clone(), notify).expect("the thread starts");
            let mut facts =
                RunMetrics::new("init".parse().expect("a valid action name"), String::new());
            writer.write(facts.clone());
            facts.renewals = 7;
            writer.write(facts.clone());
            facts.renewals = 8;
            facts.ended_at = Some(Duration::ZERO);
            writer.write(facts);
            let notes: Vec<Note> = notes.iter().collect();
            assert!(matches!(notes.last(), Some(Note::Over)), "{notes:?}");
            assert_eq!(notes.len(), failures + 1, "{notes:?}");
            if failures == 0 {
                let text = fs::read_to_string(&path).expect("the file exists");
                assert!(
                    text.contains("renewals_total{action=\"init\"} 8\n"),
                    "{text}"
                );
            }
        }
    }
}
