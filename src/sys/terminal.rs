//! What there is of a terminal.

use std::fs::File;
use std::io::IsTerminal;

/// Whether this process has a controlling terminal: one whose Ctrl-C and Ctrl-Z reach it.
#[must_use]
pub fn is_controlling() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether results go to a terminal on which a cursor can be moved, and there are keys.
#[must_use]
pub fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let has_keys = || std::io::stdin().is_terminal() || is_controlling();
    std::io::stdout().is_terminal() && !is_dumb && has_keys()
}
