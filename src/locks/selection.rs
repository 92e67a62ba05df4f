//! The actions that the user selected on the command line, and the corresponding request to the server.

use crate::lease::action::Action;
use crate::store::mysql::Selection;
use crate::store::{LockRecord, Snapshot};

/// The actions that the user selected on the command line.
#[derive(Debug, Clone)]
pub struct ActionSelection {
    /// The named actions, sorted and without duplicates. If the list is empty, `all` selects the actions.
    named: Vec<Action>,
    /// True to select all actions, false to select the actions that are held, expired or paused, or that have waiters.
    /// Used only if `named` is empty.
    all: bool,
}

impl ActionSelection {
    /// Selects the actions in `named`. If `named` is empty, selects all actions if `all` is true, and otherwise the
    /// actions that are held, expired or paused, or that have waiters.
    pub fn new(named: impl IntoIterator<Item = Action>, all: bool) -> Self {
        let mut named: Vec<Action> = named.into_iter().collect();
        named.sort();
        named.dedup();
        Self { named, all }
    }

    /// Returns true if at least one action was named.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// Returns the selection for the request to the server.
    #[must_use]
    pub fn selection(&self) -> Selection<'_> {
        match self.named.as_slice() {
            [] if self.all => Selection::All,
            [] => Selection::Active,
            named => Selection::Named(named),
        }
    }

    /// Adds a record for each named action that the tables do not contain, so that the output contains all named actions, and
    /// sorts the records in the natural order of their names.
    pub fn complete(&self, snapshot: &mut Snapshot) {
        let locks = &mut snapshot.locks;
        for action in &self.named {
            if !locks.iter().any(|record| record.action == *action) {
                locks.push(LockRecord::unknown(action.clone()));
            }
        }
        locks.sort_by(|one, other| one.action.natural_cmp(&other.action));
    }
}
