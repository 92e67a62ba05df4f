//! Which actions somebody asked for, and how that is put to the server.

use crate::lease::action::Action;
use crate::store::mysql::Selection;
use crate::store::{Sighting, Survey};

/// Which actions somebody asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// In order, each once; if there are none, those held or waited for.
    named: Vec<Action>,
    /// Or all.
    all: bool,
}

impl Asked {
    /// The actions `named`, or if there are none, `all` of them or those held or waited for.
    pub fn new(named: impl IntoIterator<Item = Action>, all: bool) -> Self {
        let mut named: Vec<Action> = named.into_iter().collect();
        named.sort();
        named.dedup();
        Self { named, all }
    }

    /// Whether any was named.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// What to ask the server for.
    #[must_use]
    pub fn selection(&self) -> Selection<'_> {
        match self.named.as_slice() {
            [] if self.all => Selection::All,
            [] => Selection::Wanted,
            named => Selection::Named(named),
        }
    }

    /// Adds what was named and never held, and puts all in order: who asks for an action by name gets
    /// an answer about it.
    pub fn complete(&self, survey: &mut Survey) {
        let locks = &mut survey.locks;
        for action in &self.named {
            if !locks.iter().any(|seen| seen.action == *action) {
                locks.push(Sighting::never_held(action.clone()));
            }
        }
        locks.sort_by(|one, other| one.action.cmp(&other.action));
    }
}
