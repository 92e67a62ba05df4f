//! The table of waiters.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::action::Action;
use crate::report::columns::{Painted, TableColumn};
use crate::report::layout::Layout;
use crate::report::line::StyledLine;
use crate::report::messages::{ENDED_WAITERS, age, duration};
use crate::report::style::Style;
use crate::store::{LockRecord, Waiter};

const COLUMNS: [TableColumn; 9] = [
    TableColumn::cut("ACTION", 0, 12),
    TableColumn::whole("POSITION", 1),
    TableColumn::cut("WAITER", 2, 12),
    TableColumn::whole("WAITED", 3),
    TableColumn::whole("SESSION", 4),
    TableColumn::cut("NOTE", 5, 8),
    TableColumn::cut("HOST", 6, 8),
    TableColumn::whole("PID", 8),
    TableColumn::cut("USER", 7, 6),
];

/// The waiters for each action, in the order of their positions.
pub(super) struct Queues<'a>(BTreeMap<&'a Action, Vec<&'a Waiter>>);

impl<'a> Queues<'a> {
    /// Groups `waiters` by action.
    pub(super) fn new(waiters: &'a [Waiter]) -> Self {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for waiter in waiters {
            queues.entry(&waiter.action).or_default().push(waiter);
        }
        Self(queues)
    }

    /// Returns the waiters for `action`, each with its position. The first position is 1.
    pub(super) fn of(&self, action: &Action) -> impl Iterator<Item = (usize, &'a Waiter)> {
        let queue = self.0.get(action).into_iter().flatten();
        (1..).zip(queue.copied())
    }

    /// Returns the longest time that a waiter for `action` may have been waiting. None if there is no such waiter.
    pub(super) fn longest_wait(&self, action: &Action) -> Option<Duration> {
        let waiters = self.of(action).map(|(_, waiter)| waiter);
        let waiting = waiters.filter(|waiter| waiter.may_be_waiting());
        waiting.map(|waiter| waiter.waiting_for).max()
    }

    /// Returns the number of waiters for `action`, without the waiters whose sessions have ended.
    pub(super) fn waiting(&self, action: &Action) -> usize {
        let waiters = self.of(action);
        waiters
            .filter(|(_, waiter)| waiter.may_be_waiting())
            .count()
    }
}

/// Formats a table of the waiters for all `records`. The waiters of an action are in the order of their
/// positions. A sentence about waiters whose sessions have ended follows if there are any. The table is empty if there
/// are no waiters.
pub(super) fn waiter_table(records: &[LockRecord], queues: &Queues, layout: Layout) -> String {
    let rows: Vec<_> = records
        .iter()
        .flat_map(|record| queues.of(&record.action))
        .map(|(position, waiter)| cells(position, waiter, layout))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let widths = layout.widths(&COLUMNS, &rows);
    let mut text = layout.table(&COLUMNS, &widths, &rows);
    let mut waiters = records.iter().flat_map(|record| queues.of(&record.action));
    if waiters.any(|(_, waiter)| !waiter.may_be_waiting()) {
        text += &layout.paragraph(&StyledLine::default(), 0, ENDED_WAITERS, Style::Faint);
    }
    text
}

fn cells(position: usize, waiter: &Waiter, layout: Layout) -> [Painted; 9] {
    let holder = &waiter.holder;
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    let wait = match layout.is_full() {
        true => duration(waiter.waiting_for),
        false => age(waiter.waiting_for),
    };
    [
        plain(waiter.action.as_str()),
        plain(&position.to_string()),
        plain(&holder.label),
        (wait, Style::Plain),
        match waiter.alive {
            Some(true) => ("alive".to_owned(), Style::Good),
            Some(false) => ("gone".to_owned(), Style::Bad),
            None => ("-".to_owned(), Style::Faint),
        },
        plain(&holder.note),
        plain(&holder.host),
        plain(&holder.pid.to_string()),
        plain(&holder.user),
    ]
}
