//! The table of waiters.

use crate::lease::action::Action;
use crate::report::escape::printable;
use crate::report::format::rendered;
use crate::report::messages::duration;
use crate::store::{LockRecord, Waiter};

/// Formats a table of the waiters for all `records`. The waiters of an action are in the order of their
/// positions.
pub(super) fn waiter_table(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let heading = [
        "ACTION", "POSITION", "WAITER", "HOST", "PID", "USER", "WAITED", "SESSION", "NOTE",
    ];
    let rows = records.iter().flat_map(|record| {
        let waiting = waiters_of(waiters, &record.action);
        (1..)
            .zip(waiting)
            .map(|(position, waiter)| waiter_cells(position, waiter))
    });
    rendered(heading, rows)
}

/// Returns the waiters for `action`, in the order of their positions.
pub(super) fn waiters_of<'a>(
    waiters: &'a [Waiter],
    action: &'a Action,
) -> impl Iterator<Item = &'a Waiter> {
    waiters
        .iter()
        .filter(move |waiter| waiter.action == *action)
}

fn waiter_cells(position: usize, waiter: &Waiter) -> [String; 9] {
    let holder = &waiter.holder;
    [
        printable(waiter.action.as_str()).into_owned(),
        position.to_string(),
        printable(&holder.label).into_owned(),
        printable(&holder.host).into_owned(),
        holder.pid.to_string(),
        printable(&holder.user).into_owned(),
        duration(waiter.waiting_for),
        match waiter.alive {
            Some(true) => "alive",
            Some(false) => "gone",
            None => "-",
        }
        .to_owned(),
        printable(&holder.note).into_owned(),
    ]
}
