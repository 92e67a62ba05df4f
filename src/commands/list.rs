//! `dlock list`: lists all actions that the tables contain.

use super::query_once;
use crate::cli::list::ListArgs;
use crate::exit::Status;
use crate::report;
use crate::report::layout::Layout;
use crate::store::target::Targets;
use crate::sys::terminal;
use crate::watch::selection::ActionSelection;

/// Prints the same table as `dlock status --all` if stdout is a terminal, and otherwise only the names, one in each line.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables.
pub fn run(args: &ListArgs, targets: Targets) -> anyhow::Result<Status> {
    let selection = ActionSelection::new([], true);
    let snapshot = query_once(targets, move |database| {
        let mut snapshot = database.snapshot(selection.selection())?;
        selection.complete(&mut snapshot);
        Ok(snapshot)
    })?;
    if terminal::stdout_width().is_some() {
        let layout = Layout::for_stdout(args.table);
        report::result(&report::status::table(&snapshot, layout))?;
    } else {
        let names = snapshot.locks.iter().map(|record| record.action.as_str());
        report::result(&names.flat_map(|name| [name, "\n"]).collect::<String>())?;
    }
    Ok(Status::OK)
}
