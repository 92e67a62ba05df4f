//! `dlock release`: an operator revokes a lease, pauses an action, or resumes it.
//!
//! A request applies only to the grant that was shown to the operator, because the request requires
//! the token of that grant. A revocation does not start a second command while the first one runs:
//! a revoked lease cannot be renewed, and the action stays held until the holder's command is dead
//! or the lease expires.

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use super::{operator, query_once};
use crate::cli::release::ReleaseArgs;
use crate::exit::{ExitError, Status};
use crate::lease::action::Action;
use crate::lease::timing::renewal_overdue_after;
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::{self, Report, messages};
use crate::store::mysql::Selection;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::target::Target;
use crate::store::{LockRecord, LockState};

/// Shows the lock, asks for confirmation, and sends the operator request.
///
/// # Errors
/// Fails if the server cannot be reached or refuses the request, if the user does not confirm, if
/// stdin is not a terminal and `--yes` is missing, or if the token of the action is not the
/// expected one.
pub fn run(args: ReleaseArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let action = args.name.action().clone();
    report.about(&action);
    let shown_action = action.clone();
    let snapshot = query_once(target.clone(), move |database| {
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
    let is_alive = record.session_alive == Some(true);
    let may_wake = record.is_leased() && is_alive && kind != OperatorAction::Resume;
    let outcome = query_once(target, move |database| {
        database.apply_operator_request(&request, may_wake)
    })?;
    let OperatorResult::Applied { woken } = outcome else {
        let why =
            format!("{action} has changed, so nothing was done: run dlock status and try again");
        return Err(ExitError::new(Status::LOST, why).into());
    };
    let event = match kind {
        OperatorAction::Release => EventKind::Released,
        OperatorAction::Pause(_) => EventKind::Paused,
        OperatorAction::Resume => EventKind::Resumed,
    };
    let text = done(&action, &record, kind, woken);
    report.info(event.by(messages::whose(&record)), text);
    Ok(Status::OK)
}

/// Returns the exit status and the reason if there is nothing to do. None if the operation must be
/// performed.
fn nothing_to_do(
    action: &Action,
    record: &LockRecord,
    kind: OperatorAction,
) -> Option<(Status, String)> {
    let diagnosis = messages::diagnosis(record);
    match kind {
        OperatorAction::Resume if record.pause.is_none() => {
            Some((Status::NOTHING, format!("{action} is not paused")))
        }
        OperatorAction::Resume | OperatorAction::Pause(_) => None,
        OperatorAction::Release if record.state() == LockState::Revoked => {
            Some((Status::OK, format!("{action} is released: {diagnosis}")))
        }
        OperatorAction::Release if record.owner_id.is_some() => None,
        OperatorAction::Release if record.version.token.0 == 0 => Some((
            Status::NOTHING,
            format!("{action} is unknown: no process has ever held it"),
        )),
        OperatorAction::Release => Some((
            Status::NOTHING,
            format!("there is nothing to release: {action} is {diagnosis}"),
        )),
    }
}

fn prompt(action: &Action, kind: OperatorAction) -> String {
    match kind {
        OperatorAction::Release => format!("release {action}?"),
        OperatorAction::Pause(time) => format!("pause {action} for {}?", messages::duration(time)),
        OperatorAction::Resume => format!("resume {action}?"),
    }
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

fn done(action: &Action, record: &LockRecord, kind: OperatorAction, is_woken: bool) -> String {
    let paused = match kind {
        OperatorAction::Resume => return format!("{action} is resumed"),
        OperatorAction::Release => "released".to_owned(),
        OperatorAction::Pause(time) => format!("paused for {}", messages::duration(time)),
    };
    if !record.is_leased() {
        return format!("{action} is {paused}");
    }
    let label = &record.holder.label;
    let soon = match (is_woken, record.state()) {
        (true, _) => "now".to_owned(),
        (false, LockState::Held) => {
            format!(
                "within {}",
                messages::duration(renewal_overdue_after(record.ttl))
            )
        }
        (false, _) => "if it is alive".to_owned(),
    };
    let end = messages::duration(crate::store::diagnosis::takeover_in(record));
    format!(
        "{action} is {paused}: {label} stops its command {soon}; its lease ends in {end} at the \
         latest"
    )
}
