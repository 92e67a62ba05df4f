//! How all programs that are compared are started: one like the other.

use std::process::{Command, Stdio};

/// `command` without input or output and with nothing of the environment but `PATH`.
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
