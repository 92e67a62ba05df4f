//! `dlock history`: shows past runs and their outcomes.

mod follow;

use super::query_once;
use crate::cli::history::HistoryArgs;
use crate::exit::Status;
use crate::report::layout::Layout;
use crate::report::{self, Report};
use crate::store::HistoryFilter;
use crate::store::target::Targets;
use crate::watch::selection::ActionSelection;

/// Shows the most recent runs, newest first. If there are none, describes the named actions. With `--follow`, shows
/// them oldest first, and then shows each new run.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables.
pub fn run(args: HistoryArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let actions = ActionSelection::new(args.actions.into_iter().chain(args.action), true);
    let layout = Layout::for_stdout(args.table);
    let filter = HistoryFilter {
        limit: args.number,
        failed: args.failed,
        since: args.since,
    };
    if args.follow {
        return follow::run(actions, filter, args.json, layout, targets, report);
    }
    let json = args.json;
    let is_filtered = filter.failed || filter.since.is_some();
    let (entries, named) = query_once(targets, move |database| {
        let entries = database.history(actions.selection(), &filter)?;
        // The records show whether a name is known.
        let named = match entries.is_empty() && actions.is_named() && !json {
            true => {
                let mut snapshot = database.snapshot(actions.selection())?;
                actions.complete(&mut snapshot);
                snapshot.locks
            }
            false => Vec::new(),
        };
        Ok((entries, named))
    })?;
    let text = match entries.as_slice() {
        _ if json => report::history::json(&entries)?,
        [] => report::history::no_runs(&named, is_filtered),
        _ => report::history::table(&entries, layout),
    };
    report::result(&text)?;
    Ok(Status::OK)
}
