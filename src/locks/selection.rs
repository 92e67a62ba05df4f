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
        // A record is large, so moving records in each step of the sort would take most of its time, and a second list of
        // all records would take a lot of memory.
        let mut order: Vec<usize> = (0..locks.len()).collect();
        order.sort_by(|one, other| locks[*one].action.natural_cmp(&locks[*other].action));
        permute(locks, order);
    }
}

/// Moves the items to their places: the item at the index `order[n]` becomes the item at the index `n`.
fn permute<T>(items: &mut [T], mut order: Vec<usize>) {
    for start in 0..order.len() {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            items.swap(at, from);
            at = from;
        }
        order[at] = at;
    }
}

#[cfg(test)]
mod tests {
    use super::permute;

    #[test]
    fn items_are_moved_to_their_places() {
        for order in [
            vec![],
            vec![0],
            vec![0, 1, 2],
            vec![2, 0, 1],
            vec![1, 2, 0],
            vec![4, 3, 2, 1, 0],
            vec![1, 0, 4, 2, 3, 5],
        ] {
            let mut items: Vec<usize> = (10..10 + order.len()).collect();
            let expected: Vec<usize> = order.iter().map(|index| 10 + index).collect();
            permute(&mut items, order);
            assert_eq!(items, expected);
        }
    }
}
