//! `dlock release`: an operator revokes a lease, pauses an action, or resumes it.
//!
//! A request applies only to the grant that was shown to the operator, because the request requires
//! the token of that grant. A revocation does not start a second command while the first one runs:
//! a revoked lease cannot be renewed, and the action stays held until the holder's command is dead
//! or the lease expires.

use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::{is_confirmed, operator, query_once};
use crate::cli::release::ReleaseArgs;
use crate::exit::{ExitError, Status};
use crate::lease::OwnerId;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::protocol::acquire::{Acquire, NextRequest, WaitLimits};
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::release::{
    changed, done_with_time, freed, nothing_to_do, prompt, several_holders,
};
use crate::report::{self, Report, messages};
use crate::store::diagnosis::Diagnosis;
use crate::store::mysql::Selection;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::target::Targets;
use crate::store::{Contender, Holder, LockRecord, Request, Response, Slot, Store, Waiter};
use crate::sys::{clock, random};

/// Length of the lease with which an expired lease is taken over. It is released at once.
const TTL: Duration = Duration::from_secs(5);

/// Time for the take-over of an expired lease: less than the limit of a query.
const FREE_LIMIT: Duration = Duration::from_secs(2);

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
    if matches!(kind, OperatorAction::Pause(_)) && record.lease.version.token.0 == 0 && !args.create
    {
        let unknown = messages::never_used(&action);
        let why = format!("{unknown}; to pause it nevertheless, add --create");
        return Err(ExitError::new(Status::NOTHING, why).into());
    }
    let chosen = chosen(&args, &record, kind)?;
    report.block(&report::status::details(&record, &snapshot, Layout::FULL));
    if !args.yes && !is_confirmed(report, &prompt(&chosen, kind))? {
        let why = format!("{action} is unchanged");
        return Err(ExitError::new(Status::USAGE, why).into());
    }
    let by = operator(args.operator, args.reason);
    let request = OperatorRequest {
        action: action.clone(),
        token: record.lease.version.token,
        slots: match kind {
            // The end of a pause revokes nothing.
            OperatorAction::Resume => Vec::new(),
            OperatorAction::Release | OperatorAction::Pause(_) => chosen.slot_tokens(),
        },
        by: by.clone(),
        kind,
    };
    let wakes = request.wakes_holder(&chosen);
    let outcome = query_once(targets.clone(), move |database| {
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
    let is_over = matches!(kind, OperatorAction::Release)
        && Diagnosis::of(&chosen) == Diagnosis::Expired
        && !snapshot.waiters.iter().any(Waiter::may_be_waiting);
    let is_freed = is_over && free_expired(&action, &by, targets)?;
    let text = match is_freed {
        true => freed(&action, &chosen),
        false => done_with_time(&action, &chosen, kind, woken),
    };
    report.info(event.by(messages::whose(&chosen)), text);
    Ok(Status::OK)
}

/// Returns `record` with the leases to which the request applies.
///
/// # Errors
/// Fails if the expected token is not in the record, if the slot is not held, or if there are several holders and the user
/// has not chosen between them.
fn chosen(
    args: &ReleaseArgs,
    record: &LockRecord,
    kind: OperatorAction,
) -> Result<LockRecord, ExitError> {
    let action = &record.action;
    let is_release = kind == OperatorAction::Release;
    let only = |is_chosen: &dyn Fn(&Slot) -> bool| LockRecord {
        slots: (record.slots.iter().filter(|slot| is_chosen(slot)).cloned()).collect(),
        ..record.clone()
    };
    let chosen = match (args.slot, args.token) {
        // An exclusive lease has the number 1.
        (Some(1), _) if record.slots.is_empty() => return Ok(record.clone()),
        (Some(number), _) => only(&|slot| slot.number == number),
        (None, Some(token)) if is_release && !record.slots.is_empty() => {
            only(&|slot| slot.lease.version.token.0 == token)
        }
        (None, Some(token)) if token != record.lease.version.token.0 => {
            return Err(changed_token(record));
        }
        (None, _) if is_release && record.slots.len() > 1 && !args.all => {
            return Err(ExitError::new(Status::USAGE, several_holders(record)));
        }
        (None, _) => return Ok(record.clone()),
    };
    match (chosen.slots.is_empty(), args.slot) {
        (false, _) => Ok(chosen),
        (true, Some(number)) => {
            let why = format!("slot {number} of {action} is not held");
            Err(ExitError::new(Status::NOTHING, why))
        }
        (true, None) => Err(changed_token(record)),
    }
}

fn changed_token(record: &LockRecord) -> ExitError {
    let token = record.main_lease().version.token;
    let why = format!(
        "{} has token {token} now: run dlock status and try again",
        record.action
    );
    ExitError::new(Status::LOST, why)
}

/// Takes over an expired lease and releases it, as a contender without a command does. So the rule for a take-over is the
/// rule for this release. Returns true if the action is free, and false if a holder may be alive.
fn free_expired(action: &Action, by: &Holder, targets: Targets) -> anyhow::Result<bool> {
    let timing = Timing::new(TTL, None).map_err(|why| ExitError::new(Status::INTERNAL, why))?;
    let owner_id = OwnerId::new(random::bytes().context("cannot get random bytes")?);
    let limits = WaitLimits {
        wait: Some(FREE_LIMIT),
        connect: FREE_LIMIT,
    };
    let contender = Contender::without_command(action.clone(), by.clone(), timing.ttl);
    query_once(targets, move |database| {
        let mut acquire = Acquire::new(owner_id, timing, Limit::ONE, limits, clock::now());
        let is_acquired = loop {
            let now = clock::now();
            match acquire.next(now) {
                NextRequest::Send(request) => {
                    let response = database.request(&contender, &request);
                    acquire.handle_response(clock::now(), &response);
                }
                NextRequest::Wait(until) => thread::park_timeout(until.since(now)),
                NextRequest::Granted(_) => break true,
                // The holder may be alive, or the account may not acquire a lease.
                NextRequest::NotGranted(_) => break false,
            }
        };
        let release = Request::Release(acquire.release_everything());
        let released = database.request(&contender, &release).outcome;
        Ok(is_acquired && matches!(released, Ok(Response::Released)))
    })
}
