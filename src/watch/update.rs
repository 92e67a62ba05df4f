//! Applies keys, responses from the server, and new screen sizes to the [`ScreenState`].

use super::detail_state::DetailState;
use super::frame::{Frame, Size};
use super::key::Key;
use super::release_dialog::{ConfirmedRelease, DialogResult, ReleaseDialog};
use super::state::{KeyEffect, Page, ScreenState, SortOrder};
use super::{details, list, release_page};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::release::{changed, done, nothing_to_do};
use crate::report::style::Style;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::{Failure, HistoryEntry, LockRecord};

impl ScreenState {
    /// Renders the open page.
    #[must_use]
    pub fn frame(&self) -> Frame {
        if let Some(dialog) = &self.dialog {
            return release_page::frame(self, dialog);
        }
        match &self.page {
            Page::List => list::frame(self),
            Page::Details(details) => details::frame(self, details),
            Page::Help => list::help(self),
        }
    }

    /// Sets the current time. The data may become stale.
    pub fn set_time(&mut self, now: BootInstant) {
        self.now = now;
        self.adjust_view();
    }

    /// Applies a new snapshot.
    pub fn set_snapshot(&mut self, snapshot: TimedSnapshot) {
        self.latest = snapshot;
        self.failure = None;
        if let Page::Details(details) = &mut self.page {
            details.set_snapshot(&self.latest);
        }
        self.adjust_view();
    }

    /// Records that a request for a snapshot failed with the error message `why`.
    pub fn set_failure(&mut self, why: String) {
        self.failure = Some(why);
        self.adjust_view();
    }

    /// Applies the most recent runs of `action`. Ignores the runs unless the details page of `action` is open.
    pub fn set_history(&mut self, action: &Action, entries: Vec<HistoryEntry>) {
        if let Page::Details(details) = &mut self.page {
            details.set_history(action, entries);
        }
    }

    /// Records that the request for the runs of `action` failed with the error message `why`. Ignores the failure
    /// unless the details page of `action` is open.
    pub fn set_history_failure(&mut self, action: &Action, why: String) {
        if let Page::Details(details) = &mut self.page
            && details.record.action == *action
        {
            details.history_failure = Some(why);
        }
        self.adjust_view();
    }

    /// Applies a new size of the screen.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
        self.adjust_view();
    }

    /// Applies a key. Returns the operation that the caller must perform.
    pub fn press(&mut self, key: Key) -> KeyEffect {
        match key {
            Key::Interrupt => return KeyEffect::Quit,
            Key::Suspend => return KeyEffect::Suspend,
            Key::Redraw => return KeyEffect::Redraw,
            _ => {}
        }
        if !self.is_releasing {
            self.notice = None;
        }
        if let Some(dialog) = self.dialog.take() {
            self.press_in_dialog(dialog, key);
            self.adjust_view();
            return KeyEffect::None;
        }
        match &mut self.page {
            Page::Help => self.page = Page::List,
            Page::Details(_) if matches!(key, Key::Escape | Key::Backspace | Key::Text('q')) => {
                self.page = Page::List;
            }
            Page::Details(_) if key == Key::Text('r') => self.open_dialog(),
            Page::Details(details) => {
                let above = details.above;
                let page = list::text_room(self).max(1);
                self.scroll(moved(key, above, page));
            }
            Page::List if self.is_typing => self.type_filter(key),
            Page::List => match key {
                // The result of a release is shown first. Ctrl-C quits at any time.
                Key::Text('q') if self.is_releasing => {}
                Key::Text('q') => return KeyEffect::Quit,
                Key::Text('?') => self.page = Page::Help,
                Key::Text('/') => self.is_typing = true,
                Key::Text('s') => {
                    self.order = match self.order {
                        SortOrder::Action => SortOrder::Severity,
                        SortOrder::Severity => SortOrder::HeldFor,
                        SortOrder::HeldFor => SortOrder::Waiters,
                        SortOrder::Waiters => SortOrder::Action,
                    }
                }
                Key::Text('r') => self.open_dialog(),
                Key::Escape => self.filter.clear(),
                Key::Enter => self.open(),
                key => self.select(key),
            },
        }
        self.adjust_view();
        KeyEffect::None
    }

    /// Scrolls the details page to line `to`, or to the last scroll position if `to` is larger. None keeps the current
    /// position, limited to the last scroll position. Does nothing on other pages.
    fn scroll(&mut self, to: Option<usize>) {
        let Page::Details(details) = &self.page else {
            return;
        };
        let max_scroll = details::max_scroll(self, details);
        let to = to.unwrap_or(details.above).min(max_scroll);
        if let Page::Details(details) = &mut self.page {
            details.above = to;
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

    /// Opens the release dialog for the action of the details page or for the selected action. If there is nothing to
    /// release, shows the reason instead.
    fn open_dialog(&mut self) {
        let action = match &self.page {
            Page::Details(details) => Some(&details.record.action),
            Page::List | Page::Help => self.selected.as_ref(),
        };
        let Some(action) = action.filter(|_| !self.is_releasing) else {
            return;
        };
        let free = || LockRecord::never_held(action.clone());
        let record = self.latest.record(action).cloned().unwrap_or_else(free);
        match nothing_to_do(action, &record, OperatorAction::Release) {
            Some((_, why)) => self.notice = Some((why, Style::Doubtful)),
            None => self.dialog = Some(Box::new(ReleaseDialog::new(record))),
        }
    }

    /// Applies a key to the release dialog.
    fn press_in_dialog(&mut self, mut dialog: Box<ReleaseDialog>, key: Key) {
        let action = &dialog.record.action;
        let (unchanged, releasing) = (
            format!("{action} is unchanged"),
            format!("releasing {action}"),
        );
        match dialog.press(key) {
            DialogResult::Open => self.dialog = Some(dialog),
            DialogResult::Cancelled => self.notice = Some((unchanged, Style::Plain)),
            DialogResult::Confirmed => {
                self.confirmed = Some(dialog.confirmed(self.operator.clone()));
                self.notice = Some((releasing, Style::Plain));
                self.is_releasing = true;
            }
        }
    }

    /// Returns the release that the user has confirmed, once. None if there is none.
    pub const fn take_confirmed(&mut self) -> Option<ConfirmedRelease> {
        self.confirmed.take()
    }

    /// Shows the result of a release.
    pub fn set_released(
        &mut self,
        release: &ConfirmedRelease,
        outcome: Result<OperatorResult, Failure>,
    ) {
        self.is_releasing = false;
        let OperatorRequest { action, kind, .. } = &release.request;
        self.notice = Some(match outcome {
            Ok(OperatorResult::Applied { woken }) => {
                (done(action, &release.shown, *kind, woken), Style::Good)
            }
            Ok(OperatorResult::Conflict) => (changed(action), Style::Bad),
            // The server may have made the change.
            Err(failure) => {
                let why = format!("cannot confirm the release of {action}: {failure}");
                (why, Style::Bad)
            }
        });
        self.adjust_view();
    }

    fn open(&mut self) {
        let Some(record) = self
            .selected
            .as_ref()
            .and_then(|action| self.latest.record(action))
        else {
            return;
        };
        self.page = Page::Details(Box::new(DetailState::new(record.clone())));
    }

    /// Moves the selection in the list according to `key`.
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

    /// Selects an action if the list is not empty, and scrolls so that the selected action is on the screen.
    pub(super) fn adjust_view(&mut self) {
        self.scroll(None);
        let rows = self.rows();
        let at = self.selected(&rows);
        // If the selected action has disappeared, select the next action in byte order, or the last row if there is
        // no next action.
        let at = at.or_else(|| {
            let gone = self.selected.as_ref()?;
            let next = rows.iter().position(|record| record.action > *gone);
            next.or(rows.len().checked_sub(1))
        });
        let at = at.unwrap_or(0);
        let selected = rows.get(at).map(|record| record.action.clone());
        let count = rows.len();
        // If the list is empty, keep the selection. The action may return, for example when the filter is cleared.
        if selected.is_some() {
            self.selected = selected;
        }
        let room = list::room(self).max(1);
        let lowest = (at + 1).saturating_sub(room);
        self.above = self.above.clamp(lowest, at.max(lowest));
        self.above = self.above.min(count.saturating_sub(room));
    }
}

/// Returns the line to which `key` moves from line `at`. The result may be beyond the last line. None if the key does
/// not move the selection or the page.
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
