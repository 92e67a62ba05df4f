//! `dlock status`: shows the state of locks, their holders and their waiters.

use std::time::Duration;

use super::{operator, query_once};
use crate::cli::status::StatusArgs;
use crate::exit::{ExitError, Status};
use crate::locks::selection::ActionSelection;
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::status::Connections;
use crate::report::{self, Report, messages};
use crate::store::target::Targets;
use crate::store::{LockRecord, LockState};
use crate::sys::clock;
use crate::watch::app;
use crate::watch::options::WatchOptions;

/// Shows the selected actions once, or repeatedly with `--watch`. With `--check`, prints nothing
/// and returns a status that shows whether at least one of the actions is held or paused.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the query, or does not have dlock's tables. With
/// `--check`, also fails if the server is read-only, or if a row is odd and nothing is held.
pub fn run(args: StatusArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let selection = ActionSelection::new(args.actions.into_iter().chain(args.action), args.all);
    let layout = Layout::for_stdout(args.table);
    if let Some(interval) = args.repeat.watch {
        if args.check {
            let why = "--check prints nothing, so it cannot be combined with --watch";
            return Err(ExitError::new(Status::USAGE, why).into());
        }
        if args.statements {
            let why = "--watch reads no statements, so it cannot be combined with --statements";
            return Err(ExitError::new(Status::USAGE, why).into());
        }
        let options = WatchOptions {
            actions: selection,
            json: args.json,
            interval,
            operator: operator(args.repeat.operator, None),
            layout,
        };
        return app::run(options, targets, report);
    }
    let StatusArgs {
        json,
        check,
        statements,
        ..
    } = args;
    let is_named = selection.is_named();
    let snapshot = query_once(targets, move |database| {
        let mut snapshot = match check {
            true => database.current_snapshot(selection.selection())?,
            false => database.snapshot(selection.selection())?,
        };
        selection.complete(&mut snapshot);
        // The table does not show the sessions.
        if !check && (json || is_named && snapshot.locks.len() == 1) {
            database.read_session_states(&mut snapshot, statements);
        }
        Ok(snapshot)
    })?;
    if check {
        return checked(&snapshot.locks);
    }
    let local_time = clock::wall();
    let text = match snapshot.locks.as_slice() {
        _ if json => report::status::json(&snapshot, local_time, Connections::Shown)?,
        [record] if is_named => {
            let details = report::status::details(record, &snapshot, layout);
            details + &report::status::next(record, &snapshot, layout)
        }
        _ => report::status::table(&snapshot, layout),
    };
    report::result(&text)?;
    for text in messages::skipped_hosts(&snapshot) {
        report.info(EventKind::HostSkipped, text);
    }
    if snapshot.is_read_only {
        report.info(EventKind::ReadOnly, messages::READ_ONLY);
    }
    let server = Duration::from_micros(snapshot.server_time.0);
    if let Some(difference) = messages::clock_difference(server, local_time) {
        report.info(EventKind::ClockDifference, difference);
    }
    Ok(Status::OK)
}

/// Returns whether one of `locks` is held, revoked or paused.
///
/// # Errors
/// Fails if none of them is, but dlock cannot read the row of one.
fn checked(locks: &[LockRecord]) -> anyhow::Result<Status> {
    let is_held = |record: &LockRecord| {
        record.pause.is_some() || matches!(record.state(), LockState::Held | LockState::Revoked)
    };
    if locks.iter().any(is_held) {
        return Ok(Status::HELD);
    }
    match locks.iter().find(|record| record.odd.is_some()) {
        Some(record) => {
            let why = format!("{} has an {}", record.action, messages::odd(record));
            Err(ExitError::new(Status::CONFIG, why).into())
        }
        None => Ok(Status::OK),
    }
}
