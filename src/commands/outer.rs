//! The leases of the outer `dlock exec`, as its environment variables show them.

use std::env;

use crate::lease::Token;
use crate::lease::action::Action;
use crate::store::OuterLease;
use crate::sys::pending_child::{SLOT, TOKENS};

/// The environment variable that contains the address of the server and the name of the database
/// that store the lease. dlock sets this variable for the command.
pub const ADDRESS: &str = "DLOCK_DATABASE_ADDRESS";

/// The environment variable with a line `name=token` for each lease of an outer dlock with the same database, the innermost
/// first.
pub const OUTER_TOKENS: &str = "DLOCK_OUTER_TOKENS";

/// The variable with the id of a `dlock hold`, for processes that run under its lease.
pub const HOLD_PID: &str = "DLOCK_HOLD_PID";

/// All variables that dlock sets for a command. `exec` never reads any of these variables as an
/// option.
pub const VARIABLES: [&str; 9] = [
    "DLOCK_ACTION",
    "DLOCK_TOKEN",
    SLOT,
    TOKENS,
    OUTER_TOKENS,
    HOLD_PID,
    "DLOCK_HOLDER",
    "DLOCK_TTL",
    ADDRESS,
];

/// Returns the leases in the variables that the innermost outer dlock has set, the innermost first, and the address of their
/// database.
pub(super) fn from_environment() -> (Vec<OuterLease>, String) {
    let mut leases = own_leases();
    leases.extend(value(OUTER_TOKENS).lines().filter_map(outer_of_line));
    (leases, value(ADDRESS))
}

/// Returns the leases of the dlock that has started this process, in the order of the names.
pub(super) fn own_leases() -> Vec<OuterLease> {
    let lines = match value(TOKENS) {
        // An older dlock sets only the variables of its lease.
        lines if lines.is_empty() => format!("{}={}", value("DLOCK_ACTION"), value("DLOCK_TOKEN")),
        lines => lines,
    };
    lines.lines().filter_map(outer_of_line).collect()
}

/// Returns the leases that a subcommand is about. By default, `action` and `token` are those of the first lease of the present
/// run, `is_argument` is false, and the subcommand is about all leases of the run.
pub(super) fn selected_leases(action: Action, is_argument: bool, token: Token) -> Vec<OuterLease> {
    let own = own_leases();
    let first = own.first().filter(|first| first.token == token);
    match (first, own.iter().find(|lease| lease.action == action)) {
        (Some(first), _) if first.action == action && !is_argument => own,
        (Some(_), Some(lease)) => vec![lease.clone()],
        _ => vec![OuterLease { action, token }],
    }
}

/// Returns the id of the `dlock hold` under whose lease this process runs, as far as the environment shows.
pub(super) fn hold_pid() -> Option<u32> {
    value(HOLD_PID).parse().ok()
}

/// Returns the value of an environment variable. Empty if it is not set.
fn value(name: &str) -> String {
    env::var_os(name)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the lease in a line `name=token`. A name may contain an equals sign. None if the line has another form.
fn outer_of_line(line: &str) -> Option<OuterLease> {
    let (action, token) = line.rsplit_once('=')?;
    Some(OuterLease {
        action: action.parse().ok()?,
        token: Token(token.parse().ok()?),
    })
}
