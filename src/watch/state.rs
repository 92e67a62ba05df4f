//! The state of the screen: the last response, the selection, the open page. `update` has the keys and responses that
//! change it.
//!
//! The selection is an action and not a line number, so it does not change when other actions appear or disappear
//! above it.

use super::detail_state::{DetailState, RunList};
use super::frame::Size;
use super::severity::severity;
use super::snapshot::TimedSnapshot;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::LockRecord;

/// The complete state of the screen.
#[derive(Debug, Clone)]
pub struct ScreenState {
    /// The server and the interval, for the heading.
    pub title: Header,
    /// The last successful response.
    pub latest: TimedSnapshot,
    /// The failure of the later requests. None if the last request succeeded.
    pub failure: Option<QueryFailure>,
    /// The screen's size.
    pub size: Size,
    /// The text by which the list is filtered. Empty if the list is not filtered.
    pub filter: String,
    /// The order of the list.
    pub order: SortOrder,
    /// The page on the screen.
    pub page: Page,
    /// True while the filter is being typed.
    pub is_typing: bool,
    pub(super) selected: Option<Action>,
    /// Number of lines of the list above the screen.
    pub(super) above: usize,
}

/// The constant part of the heading.
#[derive(Debug, Clone)]
pub struct Header {
    /// Server and database.
    pub server: String,
    /// The interval as text.
    pub interval: String,
}

/// The reason why there is no current response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFailure {
    /// Time of the first failure.
    pub since: BootInstant,
    /// Message of the last failure.
    pub why: String,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// By the bytes of the action.
    Action,
    /// By severity: problems first, then healthy leases, then free actions.
    Severity,
    /// Longest held first.
    HeldFor,
    /// Longest queue first.
    Waiters,
}

/// The page on the screen.
#[derive(Debug, Clone)]
pub enum Page {
    /// The list, with one line for each action.
    List,
    /// The details of one action.
    Details(Box<DetailState>),
    /// The help page about the keys.
    Help,
}

/// The effect of a key outside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// No effect.
    None,
    /// Quit the program.
    Quit,
    /// Restore the terminal and suspend the process.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
}

impl ScreenState {
    /// Creates a state that shows the list, with the first action selected.
    #[must_use]
    pub fn new(title: Header, snapshot: TimedSnapshot, size: Size) -> Self {
        let mut state = Self {
            title,
            latest: snapshot,
            failure: None,
            size,
            filter: String::new(),
            order: SortOrder::Action,
            page: Page::List,
            is_typing: false,
            selected: None,
            above: 0,
        };
        state.adjust_view();
        state
    }

    /// Returns the action whose last runs must be requested. None if no request is needed.
    #[must_use]
    pub fn history_request(&self) -> Option<&Action> {
        match &self.page {
            Page::Details(details) if matches!(details.history, RunList::Outdated(_)) => {
                Some(&details.record.action)
            }
            _ => None,
        }
    }

    /// Returns the records in the list, filtered and sorted.
    #[must_use]
    pub fn rows(&self) -> Vec<&LockRecord> {
        let wanted = self.filter.to_lowercase();
        let matches = |text: &str| text.to_lowercase().contains(&wanted);
        let mut rows: Vec<&LockRecord> = self
            .latest
            .snapshot
            .locks
            .iter()
            .filter(|record| {
                let holder = Some(&record.holder).filter(|_| record.is_leased());
                matches(record.action.as_str())
                    || holder.is_some_and(|holder| matches(&holder.label) || matches(&holder.host))
            })
            .collect();
        // The sorts are stable: equal rows stay in the byte order of their actions.
        match self.order {
            SortOrder::Action => {}
            SortOrder::Severity => rows.sort_by_key(|record| severity(record)),
            SortOrder::HeldFor => rows.sort_by_key(|record| {
                let held_for = record.is_leased().then_some(record.held_for);
                std::cmp::Reverse(held_for)
            }),
            SortOrder::Waiters => {
                rows.sort_by_key(|record| std::cmp::Reverse(self.latest.waiting(&record.action)));
            }
        }
        rows
    }

    /// Returns the index of the selected action in `rows`. None if it is not there.
    #[must_use]
    pub fn selected(&self, rows: &[&LockRecord]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        rows.iter().position(|record| record.action == *selected)
    }

    /// Returns the number of lines of the list above the screen.
    #[must_use]
    pub const fn above(&self) -> usize {
        self.above
    }
}
