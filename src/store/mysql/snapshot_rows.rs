//! Converts the rows of a snapshot.

use mysql::Row;

use super::columns::{malformed, required};
use super::rows::{add, is_read_only, record, versioned, waiter};
use crate::store::session_states::SessionStates;
use crate::store::{Failure, LockRecord, ServerTime, Snapshot, Waiter};

/// The rows of a snapshot: records, then waiters. Each row is converted as soon as it arrives, because it needs several
/// times the memory of its record.
#[derive(Default)]
pub(super) struct SnapshotRows {
    locks: Vec<LockRecord>,
    waiters: Vec<Waiter>,
    /// The first failure. The version of the tables may explain it.
    failure: Option<Failure>,
    /// Number of SELECTs from which rows have arrived.
    selects: usize,
}

impl SnapshotRows {
    /// Takes a row. Returns the row if it is the first row of its SELECT.
    pub(super) fn take(&mut self, select: usize, row: Row) -> Option<Row> {
        let added = match select {
            0 => add(&mut self.locks, &row, record),
            _ => add(&mut self.waiters, &row, waiter),
        };
        if let Err(failure) = added {
            self.failure.get_or_insert(failure);
        }
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
        self.failure.map_or(Ok(()), Err)?;
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
