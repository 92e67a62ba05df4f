//! `dlock history`: shows past runs and their outcomes.

mod follow;

use super::query_once;
use crate::cli::history::HistoryArgs;
use crate::exit::Status;
use crate::locks::selection::ActionSelection;
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::{self, Report, messages};
use crate::store::HistoryFilter;
use crate::store::target::Targets;

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
    let (history, has_more, named) = query_once(targets, move |database| {
        // One more entry shows whether there are more.
        let limit = filter.limit.saturating_add(1);
        let mut history =
            database.history(actions.selection(), &HistoryFilter { limit, ..filter })?;
        let number = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let has_more = history.entries.len() > number;
        history.entries.truncate(number);
        // The records show whether a name is known.
        let named = match history.entries.is_empty() && actions.is_named() && !json {
            true => {
                let mut snapshot = database.snapshot(actions.selection())?;
                actions.complete(&mut snapshot);
                snapshot.locks
            }
            false => Vec::new(),
        };
        Ok((history, has_more, named))
    })?;
    let text = match history.entries.as_slice() {
        entries if json => report::history::json(entries, has_more)?,
        [] => report::history::no_runs(&named, is_filtered),
        entries => report::history::table(entries, layout),
    };
    report::result(&text)?;
    if history.is_read_only {
        report.info(EventKind::ReadOnly, messages::READ_ONLY);
    }
    Ok(Status::OK)
}
