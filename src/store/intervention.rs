//! What an operator does to an action by hand.

use std::time::Duration;

use super::Holder;
use crate::lease::Token;
use crate::lease::action::Action;

/// An operator's change to one action.
#[derive(Debug, Clone)]
pub struct Intervention {
    /// The lock.
    pub action: Action,
    /// Its token as the operator was shown it: with another nothing is done.
    pub token: Token,
    /// The operator; the note is the reason.
    pub by: Holder,
    /// What is done.
    pub deed: Deed,
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Ends the lease.
    Release,
    /// The same if there is one, and nobody is granted the action for this time.
    Close(Duration),
    /// Lets it be granted again before that time is over.
    Reopen,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done {
        /// Whether the holder's session was ended, so that it looks at its row now.
        woken: bool,
    },
    /// The token is another by now; nothing was changed.
    Changed,
}
