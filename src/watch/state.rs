//! The state of the screen: the latest snapshot, the selection, and the open page. The module `update` applies keys and
//! responses to the state.
//!
//! The selection is an action and not a line number, so the selection does not change when other actions appear or
//! disappear above the selected action.

use std::time::Duration;

use super::detail_state::{DetailState, RunList};
use super::frame::Size;
use super::release_dialog::{ConfirmedRelease, ReleaseDialog};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::style::Style;
use crate::store::diagnosis::Severity;
use crate::store::{Holder, LockRecord};

/// The complete state of the screen.
#[derive(Debug, Clone)]
pub struct ScreenState {
    /// The part of the header that does not change: the server and the interval.
    pub title: Header,
    /// The latest snapshot that the server returned.
    pub latest: TimedSnapshot,
    /// Error message of the latest failed request. None if no request has failed since the latest snapshot.
    pub failure: Option<String>,
    /// The current time, from which the age of the data follows.
    pub now: BootInstant,
    /// Size of the screen.
    pub size: Size,
    /// The filter: the list contains an action only if the action's name, or the label or host of its holder, contains
    /// this string in upper or lower case. Empty if the list is not filtered.
    pub filter: String,
    /// Sort order of the list.
    pub order: SortOrder,
    /// The page on the screen.
    pub page: Page,
    /// The dialog on top of the page. None if no release is being prepared.
    pub dialog: Option<Box<ReleaseDialog>>,
    /// Result of the latest release, or the reason why there is nothing to release, shown until the next key. None if
    /// there is nothing to show.
    pub notice: Option<(String, Style)>,
    /// The release that the user has confirmed. None if there is none, or if the caller has taken it.
    pub(super) confirmed: Option<ConfirmedRelease>,
    /// True from the confirmation of a release until its result arrives.
    pub(super) is_releasing: bool,
    /// Identity of the user as an operator, without a reason.
    pub operator: Holder,
    /// True while the user types the filter.
    pub is_typing: bool,
    /// The selected action. None if the list has always been empty.
    pub(super) selected: Option<Action>,
    /// Number of lines of the list that are scrolled off the top of the screen.
    pub(super) above: usize,
}

/// The part of the header that does not change.
#[derive(Debug, Clone)]
pub struct Header {
    /// Address of the server, and the database.
    pub server: String,
    /// Time between two requests.
    pub interval: Duration,
}

/// Sort order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// Actions that need attention first, otherwise by the natural order of their names.
    Action,
    /// By severity: problems first, then states that deserve attention, then healthy leases, then free actions.
    Severity,
    /// Longest held first.
    HeldFor,
    /// Largest number of waiters first.
    Waiters,
}

/// The page on the screen.
#[derive(Debug, Clone)]
pub enum Page {
    /// The list, with one line for each action.
    List,
    /// The details of one action.
    Details(Box<DetailState>),
    /// The help page with all keys.
    Help,
}

/// The operation that the caller of [`ScreenState::press`] must perform after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// No operation.
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
    pub fn new(title: Header, operator: Holder, snapshot: TimedSnapshot, size: Size) -> Self {
        let mut state = Self {
            title,
            now: snapshot.received,
            latest: snapshot,
            failure: None,
            size,
            filter: String::new(),
            order: SortOrder::Action,
            page: Page::List,
            dialog: None,
            notice: None,
            confirmed: None,
            is_releasing: false,
            operator,
            is_typing: false,
            selected: None,
            above: 0,
        };
        state.adjust_view();
        state
    }

    /// Returns the action whose most recent runs must be requested from the server. None if no request is needed.
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
                let holder = Some(&record.main_lease().holder).filter(|_| record.is_leased());
                matches(record.action.as_str())
                    || holder.is_some_and(|holder| matches(&holder.label) || matches(&holder.host))
            })
            .collect();
        // All sorts are stable, so rows of equal rank stay in the natural order of their actions.
        match self.order {
            SortOrder::Action => {
                rows.sort_by_key(|record| !self.latest.needs_attention(record));
            }
            SortOrder::Severity => rows.sort_by_key(|record| Severity::of(record)),
            SortOrder::HeldFor => rows.sort_by_key(|record| {
                let held_for = record.is_leased().then_some(record.main_lease().held_for);
                std::cmp::Reverse(held_for)
            }),
            SortOrder::Waiters => {
                rows.sort_by_key(|record| std::cmp::Reverse(self.latest.waiting(&record.action)));
            }
        }
        rows
    }

    /// Returns the index of the selected action in `rows`. None if `rows` does not contain the selected action.
    #[must_use]
    pub fn selected(&self, rows: &[&LockRecord]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        rows.iter().position(|record| record.action == *selected)
    }

    /// Returns the number of lines of the list that are scrolled off the top of the screen.
    #[must_use]
    pub const fn above(&self) -> usize {
        self.above
    }
}
