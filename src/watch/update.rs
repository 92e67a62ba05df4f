//! The transitions of the screen's [`State`]: keys, responses of the server, and a new size of the screen.

use super::frame::{Frame, Size};
use super::heard::Heard;
use super::key::Key;
use super::opened::Opened;
use super::state::{Page, QueryFailure, Request, SortOrder, State};
use super::{details, list};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::HistoryEntry;

impl State {
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
    pub(super) fn follow(&mut self) {
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
