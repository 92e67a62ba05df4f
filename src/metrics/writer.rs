//! The thread that keeps a file of metrics up to date.
//!
//! It has a thread of its own because the file may lie on a disk that hangs, and renewals must not wait
//! for that. The thread has one slot: newer metrics replace those that it has not written yet.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::Facts;
use crate::sys::random;

/// Read by a collector that is another user.
const MODE: u32 = 0o644;

/// What the thread tells.
#[derive(Debug)]
pub enum Note {
    /// The file could not be written. Told once.
    Failed(io::Error),
    /// Everything is written, as far as it can be, and the thread is over.
    Over,
}

/// The way to the thread.
#[derive(Debug)]
pub struct Writer {
    slot: Arc<Slot>,
}

/// What lies between the two threads. Neither leaves it half changed, so a panic spoils nothing.
#[derive(Debug, Default)]
struct Slot {
    newest: Mutex<Option<Facts>>,
    changed: Condvar,
}

impl Writer {
    /// Starts the thread, which keeps `path` and tells by `tell` what comes of it.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(path: PathBuf, tell: impl Fn(Note) + Send + 'static) -> io::Result<Self> {
        let slot = Arc::<Slot>::default();
        let own = Arc::clone(&slot);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                let (mut told, mut is_over) = (false, false);
                while !is_over {
                    let facts = own.take();
                    is_over = facts.ended_at.is_some();
                    if let Err(error) = replace(&path, &facts.text())
                        && !told
                    {
                        told = true;
                        tell(Note::Failed(error));
                    }
                }
                tell(Note::Over);
            })?;
        Ok(Self { slot })
    }

    /// Has `facts` written; does not wait for it. The thread ends with those of a run that is over.
    pub fn write(&self, facts: Facts) {
        // Locked for an assignment only: a renewal never waits here for the file.
        *self.slot.lock() = Some(facts);
        self.slot.changed.notify_one();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Facts>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something new.
    fn take(&self) -> Facts {
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

/// Puts `text` in the place of whatever is at `path`, so that a reader sees all of the one or all of
/// the other.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // In the same folder, since a file cannot be renamed into another file system; with a dot in
    // front and another end than `.prom`, so that no collector reads it; by a name that nobody can
    // have prepared, since in a folder like /tmp it might be a link to something else.
    let random: [u8; 8] = random::bytes()?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    let temporary = path.with_file_name(temporary);
    let outcome = fill(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // Nothing more can be done, and the first error is the one to tell.
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
    // Whatever the umask took away.
    file.set_permissions(Permissions::from_mode(MODE))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{Note, Writer, replace};
    use crate::metrics::Facts;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("dlock.prom");
        replace(&path, "one").expect("it can be written");
        replace(&path, "two").expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "two");
        let mode = fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(replace(&folder.path().join("no/such/folder"), "").is_err());
        // The folder is in the way of a file.
        assert!(replace(folder.path(), "").is_err());
        let left = fs::read_dir(folder.path()).expect("it is there").count();
        assert_eq!(left, 1);
    }

    #[test]
    fn what_is_written_last_is_there_when_it_is_over_and_a_failure_is_told_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, failures) in [("dlock.prom", 0), ("no/such/folder", 1)] {
            let (sender, notes) = mpsc::channel();
            let path = folder.path().join(name);
            let tell = move |note| drop(sender.send(note));
            let writer = Writer::start(path.clone(), tell).expect("there are threads");
            let mut facts = Facts::new("init".parse().expect("a name"), String::new());
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
                let text = fs::read_to_string(&path).expect("it is there");
                assert!(
                    text.contains("renewals_total{action=\"init\"} 8\n"),
                    "{text}"
                );
            }
        }
    }
}
