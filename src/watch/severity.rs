//! Severity of an action, which depends on its diagnosis.

use crate::report::status::paint;
use crate::report::style::Style;
use crate::store::LockRecord;

/// Returns the severity of an action, from 0 for a problem to 3 for a free action.
#[must_use]
pub fn severity(record: &LockRecord) -> u8 {
    match paint(record) {
        Style::Bad => 0,
        Style::Doubtful => 1,
        Style::Good => 2,
        Style::Plain | Style::Strong | Style::Faint => 3,
    }
}
