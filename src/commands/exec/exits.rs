//! The errors with which `dlock exec` exits if it did not run its command.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::outcome::RunOutcome;
use crate::process::monitor::MonitorEnd;
use crate::protocol::acquire::NotGranted;
use crate::protocol::keeper::SessionsNotEnded;
use crate::report::{lost_grant, messages};
use crate::store::session::ListedSession;
use crate::store::{Contender, Failure, LockRecord, Success};
use crate::sys::process::ExecError;
use crate::sys::{clock, interpreter};

/// Minimum age of a record that a message describes in the past tense.
const STALE: Duration = Duration::from_secs(2);

/// Returns the exit error of a dlock process that does not run its command because a success is already recorded.
pub(super) fn done(action: &Action, once: Option<&Once>, success: Success) -> ExitError {
    let why = messages::done(action, once, &success);
    ExitError::new(Status::OK, why).because(ExitCause::Done(success.holder))
}

/// Returns the exit error of a contender whose wait for the lease has ended without a grant for `reason`, after the time
/// `waited`. `latest` is what was read for the latest reminder, and `no_response` returns the failure if no request has
/// failed.
pub(super) fn not_granted(
    reason: NotGranted,
    latest: Option<(&LockRecord, u64, BootInstant)>,
    no_response: impl FnOnce() -> Failure,
    waited: Duration,
    (contender, conflict_status): (&Contender, Status),
) -> ExitError {
    let Contender { action, once, .. } = contender;
    let waited = messages::duration(waited);
    match reason {
        NotGranted::AlreadyDone(success) => done(action, once.as_ref(), success),
        NotGranted::HeldByOther {
            record,
            read_at,
            lost_until,
        } => {
            // A waiter in the queue may have read the record for a reminder.
            let (record, read_at) = match latest {
                Some((newer, _, at)) if at > read_at => (newer, at),
                _ => (&*record, read_at),
            };
            let now = clock::now();
            let held = match (lost_until, now.since(read_at) < STALE) {
                (Some(until), _) if record.main_lease().owner_id.is_none() => {
                    lost_grant::outwaiting(action, until.since(now))
                }
                (_, true) => messages::holding(action, record),
                (_, false) => messages::was_held(action, record),
            };
            let holder = messages::whose(record).unwrap_or_default().to_owned();
            let why = format!("{held}; gave up after {waited}");
            ExitError::new(conflict_status, why).because(ExitCause::Held(holder))
        }
        NotGranted::Unreachable(failure) => {
            let failure = failure.unwrap_or_else(no_response);
            let why = format!("{failure}; gave up after {waited}");
            ExitError::new(Status::UNAVAILABLE, why)
        }
        NotGranted::Refused(failure) => ExitError::new(failure.kind.status(), failure),
    }
}

/// Returns the exit error of a contender that does not start its command because the sessions of an earlier holder have
/// not ended for the reason `why`. `left` is one of them.
pub(super) fn not_started(
    why: SessionsNotEnded,
    left: Option<&ListedSession>,
    waited: Duration,
    (contender, conflict_status): (&Contender, Status),
) -> ExitError {
    let action = &contender.action;
    let left = left.map_or_else(|| "a session".to_owned(), messages::session);
    let left =
        format!("{left}, which an earlier run of {action} left on the server, has not ended");
    match why {
        SessionsNotEnded::TimedOut | SessionsNotEnded::GivenUp => {
            let why = format!("{left}; gave up after {}", messages::duration(waited));
            let cause = ExitCause::Held(String::new());
            ExitError::new(conflict_status, why).because(cause)
        }
        SessionsNotEnded::Unreachable => {
            let why = format!("{left}, and the lease of {action} cannot be renewed");
            ExitError::new(Status::UNAVAILABLE, why)
        }
        SessionsNotEnded::Lost(record) => {
            let why = format!("lost {action}: {}", messages::holding(action, &record));
            ExitError::new(RunOutcome::Lost.status(), why)
        }
    }
}

/// Returns the exit error of a dlock process whose command cannot be started.
pub(super) fn unstartable(command: &[OsString], why: &ExecError) -> ExitError {
    let program = command.first().map_or(OsStr::new(""), OsStr::new);
    let (status, why) = match why {
        ExecError::NotFound => {
            let path = std::env::var_os("PATH");
            let interpreter = interpreter::missing(program, path.as_deref());
            let why =
                interpreter.map_or("no such command".to_owned(), |name| no_interpreter(&name));
            (Status::NOT_FOUND, why)
        }
        ExecError::NotExecutable(error) => (Status::NOT_EXECUTABLE, error.to_string()),
    };
    let program = match program.to_string_lossy() {
        name if name.is_empty() => "''".into(),
        name => name,
    };
    ExitError::new(status, format!("cannot run {program}: {why}"))
}

fn no_interpreter(name: &str) -> String {
    match name.strip_suffix('\r') {
        Some(name) => format!(
            "its first line ends with a carriage return (CR), which the kernel adds to the name of the interpreter \
             {name}; convert the file to Unix line endings"
        ),
        None => format!("its interpreter {name} does not exist"),
    }
}

/// Returns the exit error of a dlock process whose monitor is dead before the command was started.
pub(super) fn monitor_gone(end: MonitorEnd) -> ExitError {
    ExitError::new(Status::INTERNAL, format!("the monitor {end}"))
}
