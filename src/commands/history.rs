//! `dlock history`: shows past runs and their outcomes.

use super::query_once;
use crate::cli::history::HistoryArgs;
use crate::exit::Status;
use crate::report;
use crate::store::mysql::Selection;
use crate::store::target::Target;

/// Shows the most recent runs, newest first.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables.
pub fn run(args: HistoryArgs, target: Target) -> anyhow::Result<Status> {
    let mut actions = args.actions;
    actions.extend(args.action);
    let limit = args.number;
    let entries = query_once(target, move |database| {
        let selection = match actions.as_slice() {
            [] => Selection::All,
            named => Selection::Named(named),
        };
        database.history(selection, limit)
    })?;
    let text = if args.json {
        report::history::json(&entries)?
    } else {
        report::history::table(&entries)
    };
    report::result(&text)?;
    Ok(Status::OK)
}
