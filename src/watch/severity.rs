//! Style and severity of an action, which depend on its diagnosis.

use crate::report::style::Style;
use crate::store::LockRecord;
use crate::store::diagnosis::Diagnosis;

/// Returns the style in which the state and the diagnosis of an action are shown.
pub(super) fn paint(record: &LockRecord) -> Style {
    match Diagnosis::of(record) {
        Diagnosis::Free => Style::Faint,
        Diagnosis::Renewing => Style::Good,
        Diagnosis::Paused | Diagnosis::MinHold => Style::Doubtful,
        Diagnosis::Revoked
        | Diagnosis::ClockSetBack
        | Diagnosis::NotRenewing
        | Diagnosis::Gone
        | Diagnosis::Expired => Style::Bad,
    }
}

/// Returns the severity of an action, from 0 for a problem to 3 for a free action.
pub(super) fn severity(record: &LockRecord) -> u8 {
    match paint(record) {
        Style::Bad => 0,
        Style::Doubtful => 1,
        Style::Good => 2,
        Style::Plain | Style::Strong | Style::Faint => 3,
    }
}
