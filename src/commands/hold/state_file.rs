//! The file that contains the latest state of a hold while the lock is held.
//!
//! A thread writes the file, because it may be on a disk that hangs.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::event::Event;
use crate::event::queue::EventSender;
use crate::sys::latest::Latest;
use crate::sys::output_file;

/// Mode of a new file. Programs of other users may read it.
const MODE: u32 = 0o644;

/// Maximum time that dlock waits at its end until the file is removed.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(500);

/// The state that the file shows.
enum State {
    /// The lock is held. Contains the content of the file.
    Held(String),
    /// The lock is not held, so there is no file.
    Over,
}

/// The writer of the file.
pub(super) struct StateFile {
    state: Arc<Latest<State>>,
    /// A channel that is disconnected when the thread has ended.
    ended: Receiver<Infallible>,
}

impl StateFile {
    /// Returns the writer of `path`, and the main function of its thread. The thread sends the first failure to the sender
    /// that it gets.
    pub(super) fn new(path: PathBuf) -> (Self, impl FnOnce(EventSender) + Send + 'static) {
        let state = Arc::<Latest<State>>::default();
        let (own, (alive, ended)) = (Arc::clone(&state), mpsc::channel());
        let thread = move |events: EventSender| {
            let (mut has_written, mut has_failed) = (false, false);
            while let State::Held(text) = own.take() {
                let written = output_file::write(&path, MODE, |it| it.write_all(text.as_bytes()));
                match written {
                    Ok(()) => has_written = true,
                    Err(error) if !has_failed => {
                        has_failed = true;
                        // The send fails only at the end of the process.
                        let _ = events.send(Event::StateFile(error));
                    }
                    Err(_) => {}
                }
            }
            // Otherwise, the file may belong to another process.
            if has_written {
                let _ = fs::remove_file(&path);
            }
            drop(alive);
        };
        (Self { state, ended }, thread)
    }

    /// Shows that the lock is held.
    pub(super) fn write(&self, text: String) {
        self.state.put(State::Held(text));
    }

    /// Shows that the lock is not held any more. Only the first call has an effect.
    pub(super) fn remove(&self) {
        self.state.put(State::Over);
    }

    /// Waits a short time until the file is removed.
    pub(super) fn wait_for_removal(&self) {
        let _ = self.ended.recv_timeout(REMOVAL_TIMEOUT);
    }
}

/// Starts the thread of a state file.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub(super) fn start(
    thread: impl FnOnce(EventSender) + Send + 'static,
    events: EventSender,
) -> io::Result<()> {
    let named = thread::Builder::new().name("state-file".to_owned());
    named.spawn(move || thread(events)).map(drop)
}
