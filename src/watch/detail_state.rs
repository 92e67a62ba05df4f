//! The state of the details page: the last record of the open action, and its history.

use super::snapshot::TimedSnapshot;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord, LockState};

/// The known facts about the open action.
#[derive(Debug, Clone)]
pub struct DetailState {
    /// The last record of the action.
    pub record: LockRecord,
    /// True if the last response contained the action. A response omits actions that are neither held nor waited for,
    /// unless they were requested.
    pub is_listed: bool,
    /// The last runs of the action.
    pub history: RunList,
    /// Number of lines above the screen.
    pub above: usize,
}

/// The last runs of an action.
#[derive(Debug, Clone)]
pub enum RunList {
    /// The runs must be requested: there was no request yet, or the state has changed since the last one. Contains the
    /// runs that are known so far.
    Outdated(Vec<HistoryEntry>),
    /// The runs in the server's response.
    Current(Vec<HistoryEntry>),
}

impl RunList {
    /// Returns the runs, newest first.
    #[must_use]
    pub fn entries(&self) -> &[HistoryEntry] {
        match self {
            Self::Outdated(entries) | Self::Current(entries) => entries,
        }
    }
}

impl DetailState {
    /// Creates the state of an action that has just been opened.
    #[must_use]
    pub const fn new(record: LockRecord) -> Self {
        Self {
            record,
            is_listed: true,
            history: RunList::Outdated(Vec::new()),
            above: 0,
        }
    }

    /// Applies a new response. If a run has ended or an operator has acted, the history is out of date.
    pub fn set_snapshot(&mut self, snapshot: &TimedSnapshot) {
        let before = self.history_marker();
        match snapshot.record(&self.record.action) {
            Some(record) => {
                self.record = record.clone();
                self.is_listed = true;
            }
            None => self.is_listed = false,
        }
        if before != self.history_marker() {
            let entries = self.history.entries().to_vec();
            self.history = RunList::Outdated(entries);
        }
    }

    /// Applies the last runs of `action`.
    pub fn set_history(&mut self, action: &Action, entries: Vec<HistoryEntry>) {
        if self.record.action == *action {
            self.history = RunList::Current(entries);
        }
    }

    /// Returns facts that change with every new entry of the history.
    fn history_marker(&self) -> (Option<(Token, HistoryOutcome)>, LockState, bool) {
        let last = self.record.last.map(|last| (last.token, last.outcome));
        (last, self.record.state(), self.is_listed)
    }
}
