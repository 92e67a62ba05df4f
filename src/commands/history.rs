//! `dlock history`: shows past runs and their outcomes.

use super::query_once;
use crate::cli::history::HistoryArgs;
use crate::exit::Status;
use crate::report;
use crate::report::layout::Layout;
use crate::store::target::Target;
use crate::watch::selection::ActionSelection;

/// Shows the most recent runs, newest first. If there are none, describes the named actions.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables.
pub fn run(args: HistoryArgs, target: Target) -> anyhow::Result<Status> {
    let actions = ActionSelection::new(args.actions.into_iter().chain(args.action), true);
    let (limit, json) = (args.number, args.json);
    let (entries, snapshot) = query_once(target, move |database| {
        let entries = database.history(actions.selection(), limit)?;
        // The records show whether a name is known.
        let snapshot = match entries.is_empty() && actions.is_named() && !json {
            true => {
                let mut snapshot = database.snapshot(actions.selection())?;
                actions.complete(&mut snapshot);
                snapshot.locks
            }
            false => Vec::new(),
        };
        Ok((entries, snapshot))
    })?;
    let text = match entries.as_slice() {
        _ if json => report::history::json(&entries)?,
        [] => report::history::no_runs(&snapshot),
        _ => report::history::table(&entries, Layout::for_stdout(args.table)),
    };
    report::result(&text)?;
    Ok(Status::OK)
}
