//! `dlock prune`: removes locks that nobody has used for a long time.

use super::{is_confirmed, query_once};
use crate::cli::prune::PruneArgs;
use crate::exit::{ExitError, Status};
use crate::report::log::EventKind;
use crate::report::messages::{age, count};
use crate::report::{Report, escape::printable};
use crate::store::prune::{Prunable, PruneFilter};
use crate::store::target::Targets;

/// Number of locks that are removed on one connection. Each takes one commit, and the time of a query is limited.
const BATCH: usize = 50;

/// Shows the unused locks, asks for confirmation, and removes them.
///
/// # Errors
/// Fails if the server cannot be reached or refuses a request, if the user does not confirm, or if stdin is not a terminal
/// and `--yes` is missing. Locks that were removed before an error remain removed.
pub fn run(args: PruneArgs, targets: &Targets, report: &Report) -> anyhow::Result<Status> {
    let filter = PruneFilter {
        pattern: args.pattern,
        unused_for: args.older_than,
        includes_done: args.done,
    };
    let selected = filter.clone();
    let found = query_once(targets.clone(), move |database| {
        database.prunable(&selected)
    })?;
    let (kept, found): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|lock| lock.is_done && !filter.includes_done);
    let message = |text: String| report.info(EventKind::Message, text);
    if !kept.is_empty() {
        let number = locks(kept.len());
        message(format!(
            "{number} with a recorded success of exec --once: kept, because --done is not set"
        ));
    }
    if found.is_empty() {
        message("there is no lock to remove".to_owned());
        return Ok(Status::OK);
    }
    report.block(&found.iter().map(line).collect::<String>());
    if args.dry_run {
        message(format!("{} would be removed", locks(found.len())));
        return Ok(Status::OK);
    }
    let prompt = format!("remove {} with their history?", locks(found.len()));
    if !args.yes && !is_confirmed(report, &prompt)? {
        return Err(ExitError::new(Status::USAGE, "nothing is removed").into());
    }
    let mut removed = 0;
    for batch in found.chunks(BATCH) {
        let (batch, filter) = (batch.to_vec(), filter.clone());
        removed += query_once(targets.clone(), move |database| {
            let mut removed = 0;
            for lock in &batch {
                removed += usize::from(database.prune(lock, &filter)?);
            }
            Ok(removed)
        })?;
    }
    message(match found.len() - removed {
        0 => format!("removed {}", locks(removed)),
        used => format!(
            "removed {}; kept {}, which {} in use",
            locks(removed),
            locks(used),
            if used == 1 { "is" } else { "are" }
        ),
    });
    Ok(Status::OK)
}

fn locks(number: usize) -> String {
    count(u32::try_from(number).unwrap_or(u32::MAX), "lock")
}

/// Returns the line that shows `lock`.
fn line(lock: &Prunable) -> String {
    let name = printable(lock.action.as_str());
    match lock.unused_for {
        Some(time) => format!("{name}  last used {} ago\n", age(time)),
        None => format!("{name}  never used\n"),
    }
}
