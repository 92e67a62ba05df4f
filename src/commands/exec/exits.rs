//! The errors with which `dlock exec` exits if it did not run its command.

use std::ffi::{OsStr, OsString};

use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::process::monitor::MonitorEnd;
use crate::report::messages;
use crate::store::Success;
use crate::sys::interpreter;
use crate::sys::process::ExecError;

/// Returns the exit error of a dlock process that does not run its command because a success is already recorded.
pub(super) fn done(action: &Action, once: Option<&Once>, success: Success) -> ExitError {
    let why = messages::done(action, once, &success);
    ExitError::new(Status::OK, why).because(ExitCause::Done(success.holder))
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
