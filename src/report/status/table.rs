//! The table of locks.

use std::time::Duration;

use super::waiters::{Queues, waiter_table};
use crate::report::columns::{Painted, TableColumn};
use crate::report::history::outcome_text;
use crate::report::layout::Layout;
use crate::report::line::StyledLine;
use crate::report::messages::{self, age, duration};
use crate::report::style::Style;
use crate::store::diagnosis::{Diagnosis, Severity};
use crate::store::{Expiry, LastRun, Lease, LockRecord, Snapshot};

/// The columns of the table, also on the screen of `status --watch`.
pub const COLUMNS: [TableColumn; 13] = [
    TableColumn::cut("ACTION", 0, 12),
    TableColumn::whole("STATE", 1),
    TableColumn::cut("HOLDER", 2, 12),
    TableColumn::whole("HELD", 3),
    TableColumn::whole("EXPIRES IN", 4),
    TableColumn::whole("WAITERS", 5),
    TableColumn::whole("TOKEN", 7),
    TableColumn::whole("LAST RUN", 9),
    TableColumn::cut("NOTE", 8, 8),
    TableColumn::cut("HOST", 10, 8),
    TableColumn::whole("PID", 12),
    TableColumn::cut("USER", 11, 6),
    TableColumn::cut("DIAGNOSIS", 6, 50),
];

/// Text in place of the last run of an action that was never granted.
pub(super) const NEVER_USED: &str = "never used";

/// Text in place of the last run of an action that was granted, if the run is not in the history.
pub(super) const UNKNOWN_RUN: &str = "unknown";

/// Index of the column DIAGNOSIS.
const DIAGNOSIS: usize = COLUMNS.len() - 1;

/// Formats a table with one line per action, those with a problem first, or one sentence if there is no action. If there
/// are waiters, a table of the waiters follows, in the order of their positions. If the width has no room for the
/// diagnoses, the diagnoses of all actions that are not simply held or free follow too.
#[must_use]
pub fn table(snapshot: &Snapshot, layout: Layout) -> String {
    let Snapshot { locks, waiters, .. } = snapshot;
    if locks.is_empty() {
        return format!("{}\n", messages::NOTHING_HELD);
    }
    let queues = Queues::new(waiters);
    let waiting = |record: &LockRecord| queues.waiting(&record.action);
    let cells = |record| cells(record, waiting(record), layout.is_full());
    let mut locks: Vec<&LockRecord> = locks.iter().collect();
    locks.sort_by_key(|record| !has_problem(record));
    let rows: Vec<_> = locks.iter().copied().map(cells).collect();
    let widths = layout.widths(&COLUMNS, &rows);
    let mut sections = vec![layout.table(&COLUMNS, &widths, &rows)];
    if !widths.shows(DIAGNOSIS) {
        sections.push(problems(&locks, layout));
    }
    sections.push(waiter_table(&snapshot.locks, &queues, layout));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// Returns true if the action has a problem.
fn has_problem(record: &LockRecord) -> bool {
    paint(record) == Style::Bad
}

/// Formats the diagnoses of all actions that are not simply held or free, one paragraph per action.
fn problems(records: &[&LockRecord], layout: Layout) -> String {
    let problem = |record: &LockRecord| match paint(record) {
        Style::Good | Style::Faint => None,
        paint => {
            let text = format!("{}: {}", record.action, messages::diagnosis(record));
            Some(layout.paragraph(&StyledLine::default(), 0, &text, paint))
        }
    };
    records.iter().copied().filter_map(problem).collect()
}

/// Returns the cells of the line of `record`. Cells that do not apply are empty. If `exact` is true, durations are
/// exact, and a number of waiters of 0 is shown.
#[must_use]
pub fn cells(record: &LockRecord, waiting: usize, exact: bool) -> [Painted; 13] {
    let time = if exact { duration } else { age };
    let plain = |text: String| (text, Style::Plain);
    let when_held = |text: String| match record.is_leased() {
        true => (text, Style::Plain),
        false => (String::new(), Style::Plain),
    };
    let waiters = match waiting {
        0 if !exact => String::new(),
        count => count.to_string(),
    };
    let last = match record.last {
        Some(last) => last_run(last, time),
        None if record.is_known && record.is_unused() => NEVER_USED.to_owned(),
        None if record.is_known && record.main_lease().owner_id.is_none() => UNKNOWN_RUN.to_owned(),
        None => String::new(),
    };
    let main = record.main_lease();
    let holder = &main.holder;
    let paint = paint(record);
    [
        plain(record.action.to_string()),
        (state(record), paint),
        when_held(holder_and_others(record)),
        when_held(time(main.held_for)),
        when_held(expiry(main, time)),
        (waiters, Style::Doubtful),
        (main.version.token.to_string(), Style::Faint),
        plain(last),
        when_held(holder.note.clone()),
        when_held(holder.host.clone()),
        when_held(holder.pid.to_string()),
        when_held(holder.user.clone()),
        (messages::diagnosis(record), paint),
    ]
}

/// Returns the label of the holder. If there are several, it is that of the [main lease](LockRecord::main_lease), with the
/// number of the others.
#[must_use]
pub fn holder_and_others(record: &LockRecord) -> String {
    let label = &record.main_lease().holder.label;
    match record.slots.len() {
        0 | 1 => label.clone(),
        several => format!("{label} +{}", several - 1),
    }
}

/// Returns the time until the lease expires, or since it has expired.
pub(super) fn expiry(lease: &Lease, time: fn(Duration) -> String) -> String {
    match lease.expiry {
        Expiry::In(left) => time(left),
        Expiry::Ago(ago) => format!("{} ago", time(ago)),
    }
}

/// Returns the state of the action for users. A held action with a problem has another state than one without.
pub(super) fn state(record: &LockRecord) -> String {
    match Diagnosis::of(record) {
        _ if !record.is_known => "unknown".to_owned(),
        Diagnosis::NotRenewing => "overdue".to_owned(),
        Diagnosis::Gone => "gone".to_owned(),
        Diagnosis::Deadlocked => "deadlock".to_owned(),
        Diagnosis::ClockSetBack => "clock".to_owned(),
        _ => record.state().to_string(),
    }
}

/// Formats the outcome and the age of the last run.
pub(super) fn last_run(last: LastRun, time: fn(Duration) -> String) -> String {
    let result = outcome_text(last.outcome, last.dlock_status, None);
    format!("{result}, {} ago", time(last.ago))
}

/// Returns the style in which the state and the diagnosis of an action are shown.
#[must_use]
pub fn paint(record: &LockRecord) -> Style {
    match Severity::of(record) {
        Severity::Problem => Style::Bad,
        Severity::Notable => Style::Doubtful,
        Severity::Healthy => Style::Good,
        Severity::Free => Style::Faint,
    }
}
