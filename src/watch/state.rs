//! The state of the screen: the last response, the selection, the open page. Keys and responses change it.
//!
//! The selection is an action and not a line number, so it does not change when other actions appear or disappear
//! above it.

use super::frame::{Frame, Size};
use super::heard::Heard;
use super::key::Key;
use super::opened::{History, Opened};
use super::{details, list};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::{HistoryEntry, LockRecord};

/// The complete state of the screen.
#[derive(Debug, Clone)]
pub struct State {
    /// The server and the interval, for the heading.
    pub title: Header,
    /// The last successful response.
    pub heard: Heard,
    /// The failure of the later requests. None if the last request succeeded.
    pub trouble: Option<QueryFailure>,
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
    selected: Option<Action>,
    /// Number of lines of the list above the screen.
    above: usize,
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
    Trouble,
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
    Opened(Box<Opened>),
    /// The help page about the keys.
    Help,
}

/// The effect of a key outside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// No effect.
    None,
    /// Quit the program.
    Quit,
    /// Restore the terminal and suspend the process.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
}

impl State {
    /// Creates a state that shows the list, with the first action selected.
    #[must_use]
    pub fn new(title: Header, heard: Heard, size: Size) -> Self {
        let mut state = Self {
            title,
            heard,
            trouble: None,
            size,
            filter: String::new(),
            order: SortOrder::Action,
            page: Page::List,
            is_typing: false,
            selected: None,
            above: 0,
        };
        state.follow();
        state
    }

    /// Renders the screen at `now`.
    #[must_use]
    pub fn frame(&self, now: BootInstant) -> Frame {
        match &self.page {
            Page::List => list::frame(self, now),
            Page::Opened(opened) => details::frame(self, opened, now),
            Page::Help => list::help(self, now),
        }
    }

    /// Applies a new response.
    pub fn learn(&mut self, heard: Heard) {
        self.heard = heard;
        self.trouble = None;
        if let Page::Opened(opened) = &mut self.page {
            opened.learn(&self.heard);
        }
        self.follow();
    }

    /// Records that a request has failed at `now` with the message `why`.
    pub fn miss(&mut self, why: String, now: BootInstant) {
        let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
        self.trouble = Some(QueryFailure { since, why });
        self.follow();
    }

    /// Returns the action whose last runs must be requested. None if no request is needed.
    #[must_use]
    pub fn history_wanted(&self) -> Option<&Action> {
        match &self.page {
            Page::Opened(opened) if matches!(opened.history, History::Wanted(_)) => {
                Some(&opened.record.action)
            }
            _ => None,
        }
    }

    /// Applies the last runs of `action`.
    pub fn recall(&mut self, action: &Action, entries: Vec<HistoryEntry>) {
        if let Page::Opened(opened) = &mut self.page {
            opened.recall(action, entries);
        }
    }

    /// Applies a new size of the screen.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
        self.follow();
    }

    /// Returns the records in the list, filtered and sorted.
    #[must_use]
    pub fn rows(&self) -> Vec<&LockRecord> {
        let wanted = self.filter.to_lowercase();
        let matches = |text: &str| text.to_lowercase().contains(&wanted);
        let mut rows: Vec<&LockRecord> = self
            .heard
            .survey
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
            SortOrder::Trouble => rows.sort_by_key(|record| list::severity(record)),
            SortOrder::HeldFor => rows.sort_by_key(|record| {
                let held_for = record.is_leased().then_some(record.held_for);
                std::cmp::Reverse(held_for)
            }),
            SortOrder::Waiters => {
                rows.sort_by_key(|record| std::cmp::Reverse(self.heard.waiting(&record.action)));
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

    /// Applies a key. Returns its effect outside the state.
    pub fn press(&mut self, key: Key) -> Request {
        match key {
            Key::Interrupt => return Request::Quit,
            Key::Suspend => return Request::Suspend,
            Key::Redraw => return Request::Redraw,
            _ => {}
        }
        match &mut self.page {
            Page::Help => self.page = Page::List,
            Page::Opened(_) if matches!(key, Key::Escape | Key::Backspace | Key::Text('q')) => {
                self.page = Page::List;
            }
            Page::Opened(opened) => {
                let above = opened.above;
                let page = list::text_room(self).max(1);
                self.scroll(moved(key, above, page));
            }
            Page::List if self.is_typing => self.type_filter(key),
            Page::List => match key {
                Key::Text('q') => return Request::Quit,
                Key::Text('?') => self.page = Page::Help,
                Key::Text('/') => self.is_typing = true,
                Key::Text('s') => {
                    self.order = match self.order {
                        SortOrder::Action => SortOrder::Trouble,
                        SortOrder::Trouble => SortOrder::HeldFor,
                        SortOrder::HeldFor => SortOrder::Waiters,
                        SortOrder::Waiters => SortOrder::Action,
                    }
                }
                Key::Escape => self.filter.clear(),
                Key::Enter => self.open(),
                key => self.select(key),
            },
        }
        self.follow();
        Request::None
    }

    /// Scrolls the open action to line `to`, or to the maximum. None keeps the position, limited to the maximum.
    fn scroll(&mut self, to: Option<usize>) {
        let Page::Opened(opened) = &self.page else {
            return;
        };
        let max_scroll = details::max_scroll(self, opened);
        let to = to.unwrap_or(opened.above).min(max_scroll);
        if let Page::Opened(opened) = &mut self.page {
            opened.above = to;
        }
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Text(character) => self.filter.push(character),
            Key::Backspace => {
                self.is_typing = self.filter.pop().is_some();
            }
            Key::Erase => self.filter.clear(),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            key => self.select(key),
        }
    }

    fn open(&mut self) {
        let Some(record) = self
            .selected
            .as_ref()
            .and_then(|action| self.heard.record(action))
        else {
            return;
        };
        self.page = Page::Opened(Box::new(Opened::new(record.clone())));
    }

    /// Moves the selection.
    fn select(&mut self, key: Key) {
        let rows = self.rows();
        let at = self.selected(&rows).unwrap_or(0);
        let page = list::room(self).max(1);
        let Some(to) = moved(key, at, page) else {
            return;
        };
        let to = to.min(rows.len().saturating_sub(1));
        self.selected = rows.get(to).map(|record| record.action.clone());
    }

    /// Selects an action if the list has any, and scrolls so that the selection is on the screen.
    fn follow(&mut self) {
        self.scroll(None);
        let rows = self.rows();
        let at = self.selected(&rows);
        // If the selected action has disappeared, the next one in byte order is selected, or else the last row.
        let at = at.or_else(|| {
            let gone = self.selected.as_ref()?;
            let next = rows.iter().position(|record| record.action > *gone);
            next.or(rows.len().checked_sub(1))
        });
        let at = at.unwrap_or(0);
        let selected = rows.get(at).map(|record| record.action.clone());
        let count = rows.len();
        // If the list is empty, the selection is kept for later, for example until the filter is cleared.
        if selected.is_some() {
            self.selected = selected;
        }
        let room = list::room(self).max(1);
        let lowest = (at + 1).saturating_sub(room);
        self.above = self.above.clamp(lowest, at.max(lowest));
        self.above = self.above.min(count.saturating_sub(room));
    }
}

/// Returns the line that a key moves to from line `at`, without a limit at the last line. None if the key does not
/// move.
fn moved(key: Key, at: usize, page: usize) -> Option<usize> {
    Some(match key {
        Key::Up | Key::Text('k') => at.saturating_sub(1),
        Key::Down | Key::Text('j') => at + 1,
        Key::PageUp => at.saturating_sub(page),
        Key::PageDown | Key::Text(' ') => at + page,
        Key::Home | Key::Text('g') => 0,
        Key::End | Key::Text('G') => usize::MAX,
        _ => return None,
    })
}
