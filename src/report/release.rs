//! The texts of a release, a pause and a resumption, for `dlock release` and for the screen of `status --watch`.

#[cfg(test)]
mod tests;

use super::messages;
use crate::exit::Status;
use crate::lease::action::Action;
use crate::store::diagnosis::{Diagnosis, takeover_in};
use crate::store::operator::OperatorAction;
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
        OperatorAction::Release if record.main_lease().owner_id.is_some() => None,
        OperatorAction::Release if record.main_lease().version.token.0 == 0 => {
            Some((Status::NOTHING, messages::never_used(action)))
        }
        OperatorAction::Release => Some((
            Status::NOTHING,
            format!("there is nothing to release: {action} is {diagnosis}"),
        )),
    }
}

/// Returns the question before the operation.
#[must_use]
pub fn prompt(action: &Action, kind: OperatorAction) -> String {
    match kind {
        OperatorAction::Release => format!("release {action}?"),
        OperatorAction::Pause(time) => format!("pause {action} for {}?", messages::duration(time)),
        OperatorAction::Resume => format!("resume {action}?"),
    }
}

/// Returns the message if the record had a different token, so that nothing was changed.
#[must_use]
pub fn changed(action: &Action) -> String {
    format!("{action} has changed, so nothing was done")
}

/// Returns the message after the operation, without times that pass. `is_woken` is true if the holder's session was
/// killed.
#[must_use]
pub fn done(action: &Action, record: &LockRecord, kind: OperatorAction, is_woken: bool) -> String {
    let paused = match kind {
        OperatorAction::Resume => return format!("{action} is resumed"),
        OperatorAction::Release => "released".to_owned(),
        OperatorAction::Pause(time) => format!("paused for {}", messages::duration(time)),
    };
    if !has_command(record) {
        return format!("{action} is {paused}");
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
    format!("{action} is {paused}: {effect}")
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
    let end = messages::duration(takeover_in(record));
    format!("{done}; its lease ends in {end} at the latest")
}
