//! The subcommands, one file each, and what they share.

pub mod check;
pub mod doctor;
pub mod exec;
pub mod forget;
pub mod history;
pub mod release;
pub mod setup;
pub mod status;
pub mod wait;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::database::THREAD_NAME;
use crate::exit::{Ending, Status};
use crate::store::mysql::Database;
use crate::store::target::Target;
use crate::store::{Failure, Holder};
use crate::sys::host;

/// Bound on one connect, one read, one write of a command that asks once.
const LIMIT: Duration = Duration::from_secs(5);

/// Bound on all of it, name resolution included: longer than any healthy server takes, short
/// enough for somebody who looks at a screen.
const PATIENCE: Duration = Duration::from_secs(15);

/// The most bytes of a fact about a holder.
const FACT: usize = 255;

/// Describes this process as a holder, with the label and the note that the user chose.
fn holder(label: Option<String>, note: Option<String>) -> Holder {
    let (host, pid) = (host::name(), std::process::id());
    let (pod, namespace) = host::pod();
    Holder {
        label: label.unwrap_or_else(|| format!("{host}/{pid}")),
        host,
        pid,
        user: host::user(),
        note: note.unwrap_or_default(),
        pod: fitting(pod),
        namespace: fitting(namespace),
        command: String::new(),
    }
}

/// Cuts `text` to the length of its column. These facts are for people, so a long one must not stop a run.
fn fitting(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FACT));
    text
}

/// Asks the database once, on a thread of its own: some of what the driver does has no limit.
fn ask_once<T: Send + 'static>(
    target: Target,
    question: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
) -> anyhow::Result<T> {
    ask_within(target, PATIENCE, question)
}

/// The same, within `patience`. The thread is over when this returns an answer.
fn ask_within<T: Send + 'static>(
    target: Target,
    patience: Duration,
    question: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
) -> anyhow::Result<T> {
    let address = target.address.clone();
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || {
            let mut database = Database::new(target, LIMIT, PATIENCE);
            // Fails only if nobody waits any more.
            let _ = sender.send(question(&mut database));
        })
        .context("cannot start a thread")?;
    let Ok(outcome) = receiver.recv_timeout(patience) else {
        // Not joined: it may be stuck in the resolver. The process ends now and it with it.
        let why = format!("no answer from {address} within {patience:?}");
        return Err(Ending::new(Status::UNAVAILABLE, why).into());
    };
    // It only has its connection left to close. A panic in it would have ended the receive.
    let _ = thread.join();
    outcome.map_err(|failure| Ending::new(failure.kind.status(), failure).into())
}
