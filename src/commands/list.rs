//! `dlock list`: lists all actions that the tables contain.

use super::status;
use crate::cli::list::ListArgs;
use crate::cli::status::StatusArgs;
use crate::cli::watch::WatchArgs;
use crate::exit::Status;
use crate::report::Report;
use crate::store::target::Targets;

/// Prints the same as `dlock status --all`.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables.
pub fn run(args: &ListArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let args = StatusArgs {
        actions: Vec::new(),
        action: Vec::new(),
        all: true,
        json: args.json,
        check: false,
        statements: false,
        table: args.table,
        repeat: WatchArgs {
            watch: None,
            operator: None,
        },
    };
    status::run(args, targets, report)
}
