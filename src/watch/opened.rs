//! The action that is open: it as it was last seen, and what is known of its past.

use super::heard::Heard;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::store::{Entry, Fate, Sighting, State};

/// What is known of the action that is open.
#[derive(Debug, Clone)]
pub struct Opened {
    /// It as it was last seen.
    pub seen: Sighting,
    /// Whether the last answer had it: what nobody holds any more is not asked for.
    pub is_listed: bool,
    /// Its last runs.
    pub history: History,
    /// How many lines are above the screen.
    pub above: usize,
}

/// The last runs of an action.
#[derive(Debug, Clone)]
pub enum History {
    /// The server was not asked, or something has ended since.
    Wanted(Vec<Entry>),
    /// As the server told.
    Known(Vec<Entry>),
}

impl History {
    /// The runs, newest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match self {
            Self::Wanted(entries) | Self::Known(entries) => entries,
        }
    }
}

impl Opened {
    /// An action that has just been opened.
    #[must_use]
    pub const fn new(seen: Sighting) -> Self {
        Self {
            seen,
            is_listed: true,
            history: History::Wanted(Vec::new()),
            above: 0,
        }
    }

    /// Takes up a new answer. When a run has ended or an operator has acted, the history is out of date.
    pub fn learn(&mut self, heard: &Heard) {
        let before = self.stage();
        match heard.sighting(&self.seen.action) {
            Some(seen) => {
                self.seen = seen.clone();
                self.is_listed = true;
            }
            None => self.is_listed = false,
        }
        if before != self.stage() {
            let entries = self.history.entries().to_vec();
            self.history = History::Wanted(entries);
        }
    }

    /// Takes up the last runs of `action`.
    pub fn recall(&mut self, action: &Action, entries: Vec<Entry>) {
        if self.seen.action == *action {
            self.history = History::Known(entries);
        }
    }

    /// What changes with every entry of the history.
    fn stage(&self) -> (Option<(Token, Fate)>, State, bool) {
        let last = self.seen.last.map(|last| (last.token, last.fate));
        (last, self.seen.state(), self.is_listed)
    }
}
