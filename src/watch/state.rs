//! The state of the screen: what is known, what is selected, what is open. Keys and answers change it.
//!
//! The selection is an action and no number of a line, so it stays where it is when others come and
//! go above it.

use super::frame::{Frame, Size};
use super::heard::Heard;
use super::key::Key;
use super::opened::{History, Opened};
use super::{details, list};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::{Entry, Sighting};

/// All that there is to the screen.
#[derive(Debug, Clone)]
pub struct State {
    /// The server and how often it is asked, for the heading.
    pub title: Title,
    /// The last good answer.
    pub heard: Heard,
    /// Why there is none since.
    pub trouble: Option<Trouble>,
    /// The screen's size.
    pub size: Size,
    /// What the list is filtered by; empty if it is not.
    pub filter: String,
    /// In which order the list is.
    pub order: Order,
    /// What is on the screen.
    pub page: Page,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    selected: Option<Action>,
    /// How many lines of the list are above the screen.
    above: usize,
}

/// What stays the same in the heading.
#[derive(Debug, Clone)]
pub struct Title {
    /// Server and database.
    pub server: String,
    /// The interval in words.
    pub interval: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// When it was first noticed.
    pub since: BootInstant,
    /// The last failure.
    pub why: String,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By the bytes of the action.
    Action,
    /// What is the matter comes first, then what is well, then what is free.
    Trouble,
    /// Who has held the longest comes first.
    HeldFor,
    /// The longest line comes first.
    Waiters,
}

/// What is on the screen.
#[derive(Debug, Clone)]
pub enum Page {
    /// A line an action.
    List,
    /// One action.
    Opened(Box<Opened>),
    /// The keys.
    Help,
}

/// What a key asks of others than the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    None,
    /// To leave.
    Quit,
    /// To give the terminal back for a while.
    Suspend,
    /// To draw all of the screen anew.
    Redraw,
}

impl State {
    /// The list, with the first of its actions selected.
    #[must_use]
    pub fn new(title: Title, heard: Heard, size: Size) -> Self {
        let mut state = Self {
            title,
            heard,
            trouble: None,
            size,
            filter: String::new(),
            order: Order::Action,
            page: Page::List,
            is_typing: false,
            selected: None,
            above: 0,
        };
        state.follow();
        state
    }

    /// What is on the screen at `now`.
    #[must_use]
    pub fn frame(&self, now: BootInstant) -> Frame {
        match &self.page {
            Page::List => list::frame(self, now),
            Page::Opened(opened) => details::frame(self, opened, now),
            Page::Help => list::help(self, now),
        }
    }

    /// Takes up a new answer.
    pub fn learn(&mut self, heard: Heard) {
        self.heard = heard;
        self.trouble = None;
        if let Page::Opened(opened) = &mut self.page {
            opened.learn(&self.heard);
        }
        self.follow();
    }

    /// Takes up that there is none.
    pub fn miss(&mut self, why: String, now: BootInstant) {
        let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
        self.trouble = Some(Trouble { since, why });
        self.follow();
    }

    /// The action of which the last runs are to be asked for.
    #[must_use]
    pub fn history_wanted(&self) -> Option<&Action> {
        match &self.page {
            Page::Opened(opened) if matches!(opened.history, History::Wanted(_)) => {
                Some(&opened.seen.action)
            }
            _ => None,
        }
    }

    /// Takes up the last runs of `action`.
    pub fn recall(&mut self, action: &Action, entries: Vec<Entry>) {
        if let Page::Opened(opened) = &mut self.page {
            opened.recall(action, entries);
        }
    }

    /// Takes up another size of the screen.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
        self.follow();
    }

    /// The actions in the list: filtered, and in order.
    #[must_use]
    pub fn rows(&self) -> Vec<&Sighting> {
        let wanted = self.filter.to_lowercase();
        let matches = |text: &str| text.to_lowercase().contains(&wanted);
        let mut rows: Vec<&Sighting> = self
            .heard
            .survey
            .locks
            .iter()
            .filter(|seen| {
                let holder = Some(&seen.holder).filter(|_| seen.is_leased());
                matches(seen.action.as_str())
                    || holder.is_some_and(|holder| matches(&holder.label) || matches(&holder.host))
            })
            .collect();
        // Stable: what is equal stays in the order of the bytes.
        match self.order {
            Order::Action => {}
            Order::Trouble => rows.sort_by_key(|seen| list::severity(seen)),
            Order::HeldFor => rows.sort_by_key(|seen| {
                let held_for = seen.is_leased().then_some(seen.held_for);
                std::cmp::Reverse(held_for)
            }),
            Order::Waiters => {
                rows.sort_by_key(|seen| std::cmp::Reverse(self.heard.waiting(&seen.action)));
            }
        }
        rows
    }

    /// The place of the selected action in `rows`.
    #[must_use]
    pub fn selected(&self, rows: &[&Sighting]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        rows.iter().position(|seen| seen.action == *selected)
    }

    /// How many lines of the list are above the screen.
    #[must_use]
    pub const fn above(&self) -> usize {
        self.above
    }

    /// Takes up a key.
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
                        Order::Action => Order::Trouble,
                        Order::Trouble => Order::HeldFor,
                        Order::HeldFor => Order::Waiters,
                        Order::Waiters => Order::Action,
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

    /// Scrolls what is open to line `to`, or as far as it goes.
    fn scroll(&mut self, to: Option<usize>) {
        let Page::Opened(opened) = &self.page else {
            return;
        };
        let furthest = details::furthest(self, opened);
        let to = to.unwrap_or(opened.above).min(furthest);
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
        let Some(seen) = self
            .selected
            .as_ref()
            .and_then(|action| self.heard.sighting(action))
        else {
            return;
        };
        self.page = Page::Opened(Box::new(Opened::new(seen.clone())));
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
        self.selected = rows.get(to).map(|seen| seen.action.clone());
    }

    /// Selects something if there is anything, and scrolls so that it is on the screen.
    fn follow(&mut self) {
        self.scroll(None);
        let rows = self.rows();
        let at = self.selected(&rows);
        // What went away is followed by what stood below it, or the last.
        let at = at.or_else(|| {
            let gone = self.selected.as_ref()?;
            let next = rows.iter().position(|seen| seen.action > *gone);
            next.or(rows.len().checked_sub(1))
        });
        let at = at.unwrap_or(0);
        let selected = rows.get(at).map(|seen| seen.action.clone());
        let count = rows.len();
        // A filter that leaves nothing keeps the selection for when it is gone.
        if selected.is_some() {
            self.selected = selected;
        }
        let room = list::room(self).max(1);
        let lowest = (at + 1).saturating_sub(room);
        self.above = self.above.clamp(lowest, at.max(lowest));
        self.above = self.above.min(count.saturating_sub(room));
    }
}

/// Where a key leads from line `at`; the caller knows which line is the last.
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
