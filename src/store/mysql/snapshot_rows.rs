//! Converts the rows of a snapshot.

use mysql::Row;

use super::columns::reason;
use super::rows::{add, record, waiter};
use crate::lease::action::Action;
use crate::store::session_states::SessionStates;
use crate::store::{LockRecord, ServerTime, Snapshot, Waiter};

/// The rows of a snapshot: records, then waiters. Each row is converted as soon as it arrives, because it needs several
/// times the memory of its record.
#[derive(Default)]
pub(super) struct SnapshotRows {
    locks: Vec<LockRecord>,
    waiters: Vec<Waiter>,
    /// Number of SELECTs from which rows have arrived.
    selects: usize,
}

impl SnapshotRows {
    /// Takes a row. Returns the row if it is the first row of its SELECT.
    pub(super) fn take(&mut self, select: usize, row: Row) -> Option<Row> {
        // A row that dlock did not write must not hide the other rows. The name of an action can always be read.
        let record_or_odd = |row: &Row, action: Action| {
            Ok(
                record(row, action.clone()).unwrap_or_else(|failure| LockRecord {
                    odd: Some(reason(&failure).to_owned()),
                    ..LockRecord::never_held(action)
                }),
            )
        };
        let _ = match select {
            0 => add(&mut self.locks, &row, record_or_odd),
            _ => add(&mut self.waiters, &row, waiter),
        };
        let is_first = select == self.selects;
        self.selects = select + 1;
        is_first.then_some(row)
    }

    /// Returns the snapshot. The time and the flag are those of [`rows::snapshot_head`](super::rows::snapshot_head).
    pub(super) fn finish(self, (server_time, is_read_only): (ServerTime, bool)) -> Snapshot {
        Snapshot {
            server_time,
            locks: self.locks,
            waiters: self.waiters,
            sessions: SessionStates::NotQueried,
            is_read_only,
            server: String::new(),
            skipped: Vec::new(),
        }
    }
}
