//! The state of the details page: the latest record and the history of the action that the user has opened.

use crate::lease::Token;
use crate::lease::action::Action;
use crate::locks::snapshot::TimedSnapshot;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord, LockState};

/// The data on the details page.
#[derive(Debug, Clone)]
pub struct DetailState {
    /// The most recently received record of the action.
    pub record: LockRecord,
    /// True if the latest snapshot contained the action. A snapshot may omit free actions that are not paused and have
    /// no waiters.
    pub is_listed: bool,
    /// The most recent runs of the action.
    pub history: RunList,
    /// Error message of the latest request for the runs. None if that request has succeeded or is in flight.
    pub history_failure: Option<String>,
    /// Number of lines that are scrolled off the top of the screen.
    pub above: usize,
}

/// The most recent runs of an action.
#[derive(Debug, Clone)]
pub enum RunList {
    /// The runs must be requested from the server, because no response has arrived yet or because the action has
    /// changed since the latest response. Contains the runs of the latest response. Empty before the first response.
    Outdated(Vec<HistoryEntry>),
    /// The runs are up to date.
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
    /// Creates the state of the page for an action that the user has just opened.
    #[must_use]
    pub const fn new(record: LockRecord) -> Self {
        Self {
            record,
            is_listed: true,
            history: RunList::Outdated(Vec::new()),
            history_failure: None,
            above: 0,
        }
    }

    /// Applies a new snapshot. Marks the history as outdated if a run has ended or an operator has changed the action.
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

    /// Applies the most recent runs of `action`. Ignores the runs if the page shows a different action.
    pub fn set_history(&mut self, action: &Action, entries: Vec<HistoryEntry>) {
        if self.record.action == *action {
            self.history = RunList::Current(entries);
            self.history_failure = None;
        }
    }

    /// Returns values that change when a run ends or an operator changes the action.
    fn history_marker(&self) -> (Option<(Token, HistoryOutcome)>, LockState, bool) {
        let last = self.record.last.map(|last| (last.token, last.outcome));
        (last, self.record.state(), self.is_listed)
    }
}
