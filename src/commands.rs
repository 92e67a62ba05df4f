//! The subcommands, with one file for each subcommand, and the code that they share.

pub mod check;
pub mod complete_names;
pub mod copy_to;
pub mod doctor;
pub mod exec;
pub mod explain;
pub mod forget;
pub mod help;
pub mod history;
pub mod hold;
pub mod leader;
pub mod list;
pub mod note;
pub mod outer;
pub mod prune;
pub mod release;
#[cfg(feature = "serve")]
pub mod serve;
pub mod setup;
pub mod status;
pub mod wait;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;

use crate::exit::{ExitError, Status};
use crate::locks::IO_TIMEOUT;
use crate::report::Report;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;
use crate::store::{Failure, FailureKind, Holder};
use crate::sys::{host, user};

/// Maximum time of a whole query, including name resolution. A healthy server normally needs much
/// less time for any query, and the limit is short enough for a user who waits at a terminal.
const QUERY_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum length in bytes of a fact about a holder.
const MAX_FACT_LENGTH: usize = 255;

/// Returns the description of this process as a holder, with the label and the note that the user
/// chose. If `label` is None, the label is the host and the process id.
fn holder(label: Option<String>, note: Option<String>) -> Holder {
    let (host, pid) = (host::name(), std::process::id());
    let (pod, namespace) = host::pod();
    Holder {
        label: label.unwrap_or_else(|| format!("{host}/{pid}")),
        host,
        pid,
        user: truncated(user::name()),
        note: note.unwrap_or_default(),
        pod: truncated(pod),
        namespace: truncated(namespace),
        command: String::new(),
    }
}

/// Returns the description of the operator who runs this process, with the label and the note that the operator chose.
/// If `label` is None, the label is the name of the operator and the host. It has no process id, because an operator is
/// a person.
fn operator(label: Option<String>, note: Option<String>) -> Holder {
    let label =
        label.unwrap_or_else(|| truncated(format!("{}@{}", user::operator(), host::name())));
    holder(Some(label), note)
}

/// Truncates a fact about a holder to [`MAX_FACT_LENGTH`], the width of the database column. The
/// facts are only for users, so a fact that is too long must not prevent a run.
fn truncated(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_FACT_LENGTH));
    text
}

/// Asks the user at the terminal, and returns true if the user confirms.
fn is_confirmed(report: &Report, prompt: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let why = "stdin is not a terminal, so --yes is required";
        return Err(ExitError::new(Status::USAGE, why).into());
    }
    report.prompt(prompt);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Runs `query` on a new thread and returns the result. Fails if there is no result within
/// [`QUERY_TIMEOUT`]. The thread is necessary because some operations of the driver have no time
/// limit.
fn query_once<T: Send + 'static>(
    targets: Targets,
    query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
) -> anyhow::Result<T> {
    query_within(targets, QUERY_TIMEOUT, query)
}

/// Runs `query` on a new thread and returns the result. Fails if there is no result within
/// `timeout`. If the server has responded, the thread has ended when this function returns.
fn query_within<T: Send + 'static>(
    targets: Targets,
    timeout: Duration,
    query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
) -> anyhow::Result<T> {
    let worker = Worker::start(Database::new(targets, IO_TIMEOUT, QUERY_TIMEOUT))
        .context("cannot start a thread")?;
    let result = worker.call(timeout, query);
    match &result {
        // The thread may be stuck in the resolver. It ends with the process, which exits soon.
        Err(failure) if failure.kind == FailureKind::Unreachable => {}
        _ => worker.stop(),
    }
    result.map_err(|failure| ExitError::new(failure.kind.status(), failure).into())
}
