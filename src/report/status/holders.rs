//! The table of the holders of an action whose leases are in slots.

use super::table::{expiry, paint, state};
use crate::report::columns::{Painted, TableColumn};
use crate::report::layout::Layout;
use crate::report::messages::{age, duration};
use crate::report::style::Style;
use crate::store::{LockRecord, Slot};

const COLUMNS: [TableColumn; 11] = [
    TableColumn::whole("SLOT", 0),
    TableColumn::cut("HOLDER", 1, 12),
    TableColumn::whole("STATE", 2),
    TableColumn::whole("HELD", 3),
    TableColumn::whole("EXPIRES IN", 4),
    TableColumn::whole("TOKEN", 5),
    TableColumn::cut("NOTE", 7, 8),
    TableColumn::cut("HOST", 8, 8),
    TableColumn::whole("PID", 9),
    TableColumn::cut("USER", 10, 6),
    TableColumn::cut("COMMAND", 6, 12),
];

/// Formats a table of the holders in slots, in the order of their slots. Empty if there are none.
pub(super) fn holder_table(record: &LockRecord, layout: Layout) -> String {
    let rows: Vec<_> = record
        .each_slot()
        .map(|(slot, record)| cells(slot, &record, layout))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let widths = layout.widths(&COLUMNS, &rows);
    layout.table(&COLUMNS, &widths, &rows)
}

/// Returns the number of a slot and how many its holder accepts: `2 of 3`, or `2` without a limit.
pub(super) fn number(slot: &Slot) -> String {
    match slot.limit.count() {
        Some(limit) => format!("{} of {limit}", slot.number),
        None => slot.number.to_string(),
    }
}

fn cells(slot: &Slot, record: &LockRecord, layout: Layout) -> [Painted; 11] {
    let holder = &slot.lease.holder;
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    let time = if layout.is_full() { duration } else { age };
    [
        plain(&number(slot)),
        plain(&holder.label),
        (state(record), paint(record)),
        plain(&time(slot.lease.held_for)),
        plain(&expiry(&slot.lease, time)),
        (slot.lease.version.token.to_string(), Style::Faint),
        plain(&holder.note),
        plain(&holder.host),
        plain(&holder.pid.to_string()),
        plain(&holder.user),
        plain(&holder.command),
    ]
}
