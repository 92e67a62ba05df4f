//! The errors with which `dlock exec` exits if it did not run its command.

use std::ffi::OsString;

use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::report::messages;
use crate::store::Success;
use crate::sys::process::ExecError;

/// Returns the exit error of a dlock process that does not run its command because a success is already recorded.
pub(super) fn done(action: &Action, once: Option<&Once>, success: Success) -> ExitError {
    let why = messages::done(action, once, &success);
    ExitError::new(Status::OK, why).because(ExitCause::Done(success.holder))
}

/// Returns the exit error of a dlock process whose command cannot be started.
pub(super) fn unstartable(command: &[OsString], why: &ExecError) -> ExitError {
    let (status, why) = match why {
        ExecError::NotFound => (Status::NOT_FOUND, "no such command".to_owned()),
        ExecError::NotExecutable(error) => (Status::NOT_EXECUTABLE, error.to_string()),
    };
    let program = command.first().map(|program| program.to_string_lossy());
    let program = program.unwrap_or_default();
    ExitError::new(status, format!("cannot run {program}: {why}"))
}
