//! Checks for a controlling terminal and for a terminal screen.

use std::fs::File;
use std::io::IsTerminal;

/// Returns true if this process has a controlling terminal, which can send it the signals of Ctrl-C and Ctrl-Z.
#[must_use]
pub fn is_controlling() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Returns true if stdout is a terminal with a movable cursor and keys can be read.
#[must_use]
pub fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let has_keys = || std::io::stdin().is_terminal() || is_controlling();
    std::io::stdout().is_terminal() && !is_dumb && has_keys()
}
