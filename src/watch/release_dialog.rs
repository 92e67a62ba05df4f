//! The dialog that releases an action from the screen: the user types a reason and confirms. The module `update` applies
//! keys to the dialog.
//!
//! The request contains the token of the record that the dialog shows. If the action has another token by then, the
//! server changes nothing.

use super::key::Key;
use crate::store::operator::{OperatorAction, OperatorRequest};
use crate::store::{Holder, LockRecord};

/// Maximum length of the reason in bytes, as for `--reason`.
const MAX_REASON_LENGTH: usize = 1023;

/// A release that the user has not confirmed yet.
#[derive(Debug, Clone)]
pub struct ReleaseDialog {
    /// The record that was on the screen when the dialog was opened.
    pub(super) record: LockRecord,
    /// The reason, which may be empty.
    pub(super) reason: String,
    /// The step that the dialog waits for.
    pub(super) step: DialogStep,
}

/// A confirmed release.
#[derive(Debug, Clone)]
pub struct ConfirmedRelease {
    /// The request to send.
    pub request: OperatorRequest,
    /// The record that was shown to the user.
    pub shown: LockRecord,
}

/// A step of the dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DialogStep {
    /// The user types the reason.
    Reason,
    /// The user confirms or cancels.
    Confirmation,
}

/// The state of the dialog after a key.
#[derive(Debug)]
pub enum DialogResult {
    /// The dialog stays open.
    Open,
    /// The user has cancelled the release.
    Cancelled,
    /// The user has confirmed the release.
    Confirmed,
}

impl ReleaseDialog {
    /// Opens the dialog for the action of `record`.
    #[must_use]
    pub const fn new(record: LockRecord) -> Self {
        Self {
            record,
            reason: String::new(),
            step: DialogStep::Reason,
        }
    }

    /// Applies a key.
    pub fn press(&mut self, key: Key) -> DialogResult {
        match (self.step, key) {
            (_, Key::Escape) | (DialogStep::Confirmation, Key::Text('n' | 'N')) => {
                return DialogResult::Cancelled;
            }
            (DialogStep::Confirmation, Key::Text('y' | 'Y')) => return DialogResult::Confirmed,
            (DialogStep::Reason, Key::Text(character))
                if self.reason.len() + character.len_utf8() <= MAX_REASON_LENGTH =>
            {
                self.reason.push(character);
            }
            (DialogStep::Reason, Key::Backspace) => drop(self.reason.pop()),
            (DialogStep::Reason, Key::Erase) => self.reason.clear(),
            (DialogStep::Reason, Key::Enter) => self.step = DialogStep::Confirmation,
            _ => {}
        }
        DialogResult::Open
    }

    /// Returns the request of the user `operator`.
    #[must_use]
    pub fn confirmed(self, operator: Holder) -> ConfirmedRelease {
        let request = OperatorRequest {
            action: self.record.action.clone(),
            token: self.record.lease.version.token,
            slots: self.record.slot_tokens(),
            by: Holder {
                note: self.reason,
                ..operator
            },
            kind: OperatorAction::Release,
        };
        ConfirmedRelease {
            request,
            shown: self.record,
        }
    }
}
