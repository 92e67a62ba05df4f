//! The thread that keeps the metrics file up to date.
//!
//! A separate thread writes the file, because the file may be on a disk that hangs and renewals must not wait for that
//! disk.
//!
//! The facts of a run that was skipped do not replace those of an earlier run, because a monitor would then no longer see
//! that the earlier run failed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::{EarlierMetrics, RunMetrics};
use crate::lease::action::Action;
use crate::sys::latest::Latest;
use crate::sys::output_file;

/// Mode of a new metrics file. All users may read the file, because the collector may run as a different user.
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
    facts: Arc<Latest<RunMetrics>>,
}

impl Writer {
    /// Starts the thread, which writes facts to `path`. The thread calls `notify` after the first failure and
    /// immediately before the thread ends.
    ///
    /// # Errors
    /// Fails if the kernel cannot start a thread.
    pub fn start(path: PathBuf, notify: impl Fn(Note) + Send + 'static) -> io::Result<Self> {
        let latest = Arc::<Latest<RunMetrics>>::default();
        let own = Arc::clone(&latest);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                let (mut has_failed, mut has_ended) = (false, false);
                let mut earlier = None;
                while !has_ended {
                    let facts = own.take();
                    has_ended = facts.ended_at.is_some();
                    let earlier =
                        earlier.get_or_insert_with(|| read_earlier(&path, &facts.actions));
                    if facts.is_skipped() && earlier.is_some() {
                        continue;
                    }
                    let text = facts.text(earlier.as_ref());
                    let written =
                        output_file::write(&path, MODE, |file| file.write_all(text.as_bytes()));
                    if let Err(error) = written
                        && !has_failed
                    {
                        has_failed = true;
                        notify(Note::Failed(error));
                    }
                }
                notify(Note::Over);
            })?;
        Ok(Self { facts: latest })
    }

    /// Passes `facts` to the thread without waiting until they are written. The thread ends after
    /// it has handled the facts of a run that has ended.
    pub fn write(&self, facts: RunMetrics) {
        self.facts.put(facts);
    }
}

/// Reads what the file contains from an earlier run of `action`. None if there is no such run, and for a file that is not
/// regular, because reading a FIFO or a device could block or remove its content.
fn read_earlier(path: &Path, actions: &[Action]) -> Option<EarlierMetrics> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let text = is_file.then(|| fs::read_to_string(path))?;
    EarlierMetrics::read(&text.ok()?, actions.first()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{Note, Writer};
    use crate::metrics::RunMetrics;

    #[test]
    fn the_last_facts_are_written_and_one_failure_is_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, failures) in [("dlock.prom", 0), ("no/such/folder", 1)] {
            let (sender, notes) = mpsc::channel();
            let path = folder.path().join(name);
            let notify = move |note| drop(sender.send(note));
            let writer = Writer::start(path.clone(), notify).expect("the thread starts");
            let mut facts = RunMetrics::new(
                vec!["init".parse().expect("a valid action name")],
                String::new(),
            );
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
