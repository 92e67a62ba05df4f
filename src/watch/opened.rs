//! The state of the details page: the last record of the open action, and its history.

use super::heard::Heard;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord, LockState};

/// The known facts about the open action.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The last record of the action.
    pub record: LockRecord,
    /// True if the last response contained the action. A response omits actions that are neither held nor waited for,
    /// unless they were requested.
    pub is_listed: bool,
    /// The last runs of the action.
    pub history: History,
    /// Number of lines above the screen.
    pub above: usize,
}

/// The last runs of an action.
#[derive(Debug, Clone)]
pub enum History {
    /// The runs must be requested: there was no request yet, or the state has changed since the last one. Contains the
    /// runs that are known so far.
    Wanted(Vec<HistoryEntry>),
    /// The runs in the server's response.
    Known(Vec<HistoryEntry>),
}

impl History {
    /// Returns the runs, newest first.
    #[must_use]
    pub fn entries(&self) -> &[HistoryEntry] {
        match self {
            Self::Wanted(entries) | Self::Known(entries) => entries,
        }
    }
}

impl Opened {
    /// Creates the state of an action that has just been opened.
    #[must_use]
    pub const fn new(record: LockRecord) -> Self {
        Self {
            record,
            is_listed: true,
            history: History::Wanted(Vec::new()),
            above: 0,
        }
    }

    /// Applies a new response. If a run has ended or an operator has acted, the history is out of date.
    pub fn learn(&mut self, heard: &Heard) {
        let before = self.history_marker();
        match heard.record(&self.record.action) {
            Some(record) => {
                self.record = record.clone();
                self.is_listed = true;
            }
            None => self.is_listed = false,
        }
        if before != self.history_marker() {
            let entries = self.history.entries().to_vec();
            self.history = History::Wanted(entries);
        }
    }

    /// Applies the last runs of `action`.
    pub fn recall(&mut self, action: &Action, entries: Vec<HistoryEntry>) {
        if self.record.action == *action {
            self.history = History::Known(entries);
        }
    }

    /// Returns facts that change with every new entry of the history.
    fn history_marker(&self) -> (Option<(Token, HistoryOutcome)>, LockState, bool) {
        let last = self.record.last.map(|last| (last.token, last.fate));
        (last, self.record.state(), self.is_listed)
    }
}
