//! The text at the end of each help text.

use crate::exit;

/// The reference to the manual, which ends each help text.
pub(super) const SEE_ALSO: &str =
    "See dlock(7) for how dlock works and what happens on each failure.";

/// The reference to the long help, which ends each short help text.
const MORE: &str = "Connection options, variables and exit statuses: --help. The manual: dlock(7).";

/// The same for a subcommand that does not connect.
const MORE_OFFLINE: &str = "Variables and exit statuses: --help. The manual: dlock(7).";

/// How to reach a server, in the short help text of each subcommand that connects.
const SERVER: &str =
    "Server: --url mysql://USER@HOST/DATABASE or DLOCK_URL, or a configuration file.";

/// Returns the text at the end of the long help text of `subcommand`: `examples`, the exit statuses and [`SEE_ALSO`].
pub(super) fn long_footer(subcommand: &str, examples: &str) -> String {
    let examples = examples_section(examples);
    format!("{examples}{}\n\n{SEE_ALSO}", exit::help(Some(subcommand)))
}

/// Returns the text at the end of the short help text of a subcommand that connects: `examples`, [`SERVER`] and [`MORE`].
pub(super) fn footer(examples: &str) -> String {
    format!("{}{SERVER}\n{MORE}", examples_section(examples))
}

/// Returns the text at the end of the short help text of a subcommand that does not connect: `examples` and
/// [`MORE_OFFLINE`].
pub(super) fn offline_footer(examples: &str) -> String {
    format!("{}{MORE_OFFLINE}", examples_section(examples))
}

/// Returns `examples` as a section. The examples are separated by line breaks.
fn examples_section(examples: &str) -> String {
    let lines: Vec<String> = examples.lines().map(|line| format!("  {line}")).collect();
    format!("Examples:\n{}\n\n", lines.join("\n"))
}

/// Returns the text at the end of the long help text of dlock.
pub(super) fn all_statuses() -> String {
    format!("{}\n\n{SEE_ALSO}", exit::help(None))
}
