//! Checks for a controlling terminal and for a terminal screen, and the width of a terminal.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use super::proc;

/// Returns true if this process has a controlling terminal, which can send it the signals of Ctrl-C and Ctrl-Z.
///
/// The answer comes from `/proc`, because `/dev/tty` may be missing in a chroot or a container.
#[must_use]
pub fn is_controlling() -> bool {
    proc::has_terminal()
}

/// Returns true if stdout is a terminal with a movable cursor and keys can be read.
#[must_use]
pub fn is_screen() -> bool {
    let has_keys = || std::io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
    std::io::stdout().is_terminal() && !is_dumb() && has_keys()
}

/// The number of columns that dlock assumes if the terminal does not report its size, as on a serial line.
const DEFAULT_WIDTH: usize = 80;

/// Returns the number of columns of the terminal on stdout. None if stdout is not a terminal.
#[must_use]
pub fn stdout_width() -> Option<usize> {
    let stdout = std::io::stdout();
    stdout.is_terminal().then(|| width(stdout))
}

/// Returns true if stderr is the controlling terminal of this process, so that its foreground process group is known.
#[must_use]
pub fn is_stderr_controlling() -> bool {
    rustix::termios::tcgetpgrp(std::io::stderr()).is_ok()
}

/// Returns the number of columns of the terminal on stderr. None if stderr is not a terminal, or if this process is not
/// in the foreground process group of this terminal.
#[must_use]
pub fn foreground_stderr_width() -> Option<usize> {
    let stderr = std::io::stderr();
    let foreground = rustix::termios::tcgetpgrp(&stderr).ok()?;
    (foreground == rustix::process::getpgrp()).then(|| width(stderr))
}

fn width(terminal: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => DEFAULT_WIDTH,
    }
}

/// Returns true if the terminal understands no escape sequences.
#[must_use]
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
