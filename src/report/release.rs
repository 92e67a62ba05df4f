//! The texts of a release, a pause and a resumption, for `dlock release` and for the screen of `status --watch`.

#[cfg(test)]
mod tests;

use super::messages;
use crate::exit::Status;
use crate::lease::action::Action;
use crate::store::diagnosis::Diagnosis;
use crate::store::operator::OperatorAction;
use crate::store::takeover::{HolderSession, allowed_in};
use crate::store::{LockRecord, LockState};

/// Returns the exit status and the reason if there is nothing to do. None if the operation must be
/// performed.
#[must_use]
pub fn nothing_to_do(
    action: &Action,
    record: &LockRecord,
    kind: OperatorAction,
) -> Option<(Status, String)> {
    let diagnosis = messages::diagnosis(record);
    match kind {
        _ if record.odd.is_some() => {
            let why = format!("{action} has an {diagnosis}; repair the row with SQL");
            Some((Status::CONFIG, why))
        }
        OperatorAction::Resume if record.pause.is_none() => {
            Some((Status::NOTHING, format!("{action} is not paused")))
        }
        OperatorAction::Resume | OperatorAction::Pause(_) => None,
        OperatorAction::Release if record.state() == LockState::Revoked => {
            Some((Status::OK, format!("{action} is released: {diagnosis}")))
        }
        OperatorAction::Release if record.leases().any(|lease| lease.owner_id.is_some()) => None,
        OperatorAction::Release if record.main_lease().version.token.0 == 0 => {
            Some((Status::NOTHING, messages::never_used(action)))
        }
        OperatorAction::Release => Some((
            Status::NOTHING,
            format!("there is nothing to release: {action} is {diagnosis}"),
        )),
    }
}

/// Returns the question before the operation on the leases in `record`.
#[must_use]
pub fn prompt(record: &LockRecord, kind: OperatorAction) -> String {
    let action = &record.action;
    match kind {
        OperatorAction::Release => format!("release {}?", released(record)),
        OperatorAction::Pause(time) => format!("pause {action} for {}?", messages::duration(time)),
        OperatorAction::Resume => format!("resume {action}?"),
    }
}

/// Returns what a release of the leases in `record` releases: the action, or slots of it.
fn released(record: &LockRecord) -> String {
    let action = &record.action;
    match record.slots.as_slice() {
        [] => action.to_string(),
        [slot] => format!("slot {} of {action}", slot.number),
        slots => format!("all {} slots of {action}", slots.len()),
    }
}

/// Returns the message that a release has to name one of the holders in `record`.
#[must_use]
pub fn several_holders(record: &LockRecord) -> String {
    format!(
        "{} has {} holders: add --slot N for one of them, or --all",
        record.action,
        record.slots.len()
    )
}

/// Returns the message if the record had a different token, so that nothing was changed.
#[must_use]
pub fn changed(action: &Action) -> String {
    format!("{action} has changed, so nothing was done")
}

/// Returns the message after the operation on the leases in `record`, without times that pass. `is_woken` is true if the
/// sessions of the holders were killed.
#[must_use]
pub fn done(action: &Action, record: &LockRecord, kind: OperatorAction, is_woken: bool) -> String {
    let (subject, paused) = match kind {
        OperatorAction::Resume => return format!("{action} is resumed"),
        OperatorAction::Release => (released(record), "released".to_owned()),
        OperatorAction::Pause(time) => {
            let paused = format!("paused for {}", messages::duration(time));
            (action.to_string(), paused)
        }
    };
    let verb = match (kind, record.slots.len()) {
        (OperatorAction::Release, 2..) => "are",
        _ => "is",
    };
    if !has_command(record) {
        return format!("{subject} {verb} {paused}");
    }
    if record.slots.len() > 1 {
        let when = match is_woken {
            true => "now",
            false => "at their next renewals",
        };
        return format!("{subject} {verb} {paused}: the holders stop their commands {when}");
    }
    let label = &record.main_lease().holder.label;
    let effect = match (Diagnosis::of(record), is_woken) {
        (Diagnosis::NotRenewing | Diagnosis::Gone, _) => format!(
            "{label} has not renewed its lease for {}, so its command may not stop at once",
            messages::duration(record.main_lease().renewed_ago())
        ),
        (Diagnosis::Expired | Diagnosis::Revoked, false) => {
            format!("{label} stops its command if it is alive")
        }
        (_, true) => format!("{label} stops its command now"),
        (_, false) => format!("{label} stops its command at its next renewal"),
    };
    format!("{subject} {verb} {paused}: {effect}")
}

/// Returns the message after the release of an expired lease that nobody holds any more.
#[must_use]
pub fn freed(action: &Action, record: &LockRecord) -> String {
    let label = &record.main_lease().holder.label;
    format!("{action} is free: the lease of {label}, which is dead or cut off, had expired")
}

/// Returns true if the lease of `record` ends only when its command is dead or when it expires.
fn has_command(record: &LockRecord) -> bool {
    record.is_leased() && Diagnosis::of(record) != Diagnosis::MinHold
}

/// Returns the message after the operation, with the remaining time of the lease if there is one.
#[must_use]
pub fn done_with_time(
    action: &Action,
    record: &LockRecord,
    kind: OperatorAction,
    is_woken: bool,
) -> String {
    let done = done(action, record, kind, is_woken);
    if matches!(kind, OperatorAction::Resume) || !has_command(record) {
        return done;
    }
    let ends = allowed_in(record, HolderSession::LostQueueLock);
    let leases = match record.slots.len() {
        0 | 1 => "its lease ends",
        _ => "their leases end",
    };
    format!(
        "{done}; {leases} in {} at the latest",
        messages::duration(ends)
    )
}
