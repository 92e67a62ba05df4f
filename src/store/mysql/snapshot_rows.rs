//! Converts the rows of a snapshot.

use mysql::Row;

use super::columns::{malformed, reason, required};
use super::rows::{add, is_read_only, record, versioned, waiter};
use crate::lease::action::Action;
use crate::store::session_states::SessionStates;
use crate::store::{Failure, LockRecord, ServerTime, Snapshot, Waiter};

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

    /// Returns the snapshot. `sets` contains the first row of each SELECT.
    pub(super) fn finish(self, sets: &[Vec<Row>]) -> Result<Snapshot, Failure> {
        let server_time = ServerTime(required(versioned(sets)?, "server_time")?);
        if sets.len() != 2 {
            return Err(malformed("it is not complete"));
        }
        Ok(Snapshot {
            server_time,
            locks: self.locks,
            waiters: self.waiters,
            sessions: SessionStates::NotQueried,
            is_read_only: is_read_only(sets)?,
            server: String::new(),
            skipped: Vec::new(),
        })
    }
}
