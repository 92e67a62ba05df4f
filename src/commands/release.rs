//! `dlock release`: an operator revokes a lease, pauses an action, or resumes it.
//!
//! A request applies only to the grant that was shown to the operator, because the request requires
//! the token of that grant. A revocation does not start a second command while the first one runs:
//! a revoked lease cannot be renewed, and the action stays held until the holder's command is dead
//! or the lease expires.

use std::io::{self, IsTerminal};

use super::{operator, query_once};
use crate::cli::release::ReleaseArgs;
use crate::exit::{ExitError, Status};
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::release::{changed, done_with_time, nothing_to_do, prompt};
use crate::report::{self, Report, messages};
use crate::store::LockRecord;
use crate::store::mysql::Selection;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::target::Targets;

/// Shows the lock, asks for confirmation, and sends the operator request.
///
/// # Errors
/// Fails if the server cannot be reached or refuses the request, if the user does not confirm, if
/// stdin is not a terminal and `--yes` is missing, or if the token of the action is not the
/// expected one.
pub fn run(args: ReleaseArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let action = args.name.action().clone();
    report.about(&action);
    let shown_action = action.clone();
    let snapshot = query_once(targets.clone(), move |database| {
        database.snapshot(Selection::Named(&[shown_action]))
    })?;
    let record = snapshot.locks.first().cloned();
    let record = record.unwrap_or_else(|| LockRecord::never_held(action.clone()));
    let kind = match args.pause {
        _ if args.resume => OperatorAction::Resume,
        Some(time) => OperatorAction::Pause(time),
        None => OperatorAction::Release,
    };
    if let Some((status, why)) = nothing_to_do(&action, &record, kind) {
        report.info(EventKind::Message.by(None).ending_with(status.code()), why);
        return Ok(status);
    }
    let token = record.version.token;
    if args.token.is_some_and(|expected| expected != token.0) {
        let why = format!("{action} has token {token} now: run dlock status and try again");
        return Err(ExitError::new(Status::LOST, why).into());
    }
    report.block(&report::status::details(&record, &snapshot, Layout::FULL));
    if !args.yes && !is_confirmed(report, &prompt(&action, kind))? {
        let why = format!("{action} is unchanged");
        return Err(ExitError::new(Status::USAGE, why).into());
    }
    let request = OperatorRequest {
        action: action.clone(),
        token,
        by: operator(args.operator, args.reason),
        kind,
    };
    let wakes = request.wakes_holder(&record);
    let outcome = query_once(targets, move |database| {
        database.apply_operator_request(&request, wakes)
    })?;
    let OperatorResult::Applied { woken } = outcome else {
        let why = format!("{}: run dlock status and try again", changed(&action));
        return Err(ExitError::new(Status::LOST, why).into());
    };
    let event = match kind {
        OperatorAction::Release => EventKind::Released,
        OperatorAction::Pause(_) => EventKind::Paused,
        OperatorAction::Resume => EventKind::Resumed,
    };
    let text = done_with_time(&action, &record, kind, woken);
    report.info(event.by(messages::whose(&record)), text);
    Ok(Status::OK)
}

/// Asks the user at the terminal, and returns true if the user confirms.
fn is_confirmed(report: &Report, prompt: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let why = "stdin is not a terminal, so --yes is required";
        return Err(ExitError::new(Status::USAGE, why).into());
    }
    report.prompt(prompt);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
