//! The environment in which all compared programs are started.

use std::process::{Command, Stdio};

/// Returns `command` without input and output, and with only `PATH` in its environment.
pub(crate) fn bare(mut command: Command) -> Command {
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
