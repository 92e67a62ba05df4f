//! Sets the environment of all compared programs.

use std::process::{Command, Stdio};

/// Returns `command` with only `PATH` in its environment, and with /dev/null as standard input, output and error.
pub fn bare(mut command: Command) -> Command {
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
