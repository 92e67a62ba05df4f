//! Requests that are not part of a run: they read records, waiters and the history, forget a success, and apply an
//! operator request.

use std::time::Duration;

use super::database::Database;
use super::exchange::RequestKind;
use super::rows::{self, ReadResult};
use super::snapshot_rows::SnapshotRows;
use super::statements::{self, Selection};
use crate::lease::action::Action;
use crate::lease::once::OnceKey;
use crate::lease::{OwnerId, Token};
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::prune::{Prunable, PruneFilter};
use crate::store::{
    Contender, Failure, FailureKind, History, HistoryFilter, Holder, LockRecord, QueueLock,
    Snapshot,
};

impl Database {
    /// Returns the records of the actions in `selection`, sorted by action, and their waiters, sorted by position.
    /// Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn snapshot(&mut self, selection: Selection) -> Result<Snapshot, Failure> {
        let found = self.snapshot_with(selection, |queue_lock| {
            statements::select_snapshot(selection, queue_lock)
        });
        found.map(|mut snapshot| {
            snapshot.leave_out_dead_waiters(matches!(selection, Selection::Active));
            snapshot
        })
    }

    /// Reads the actions in `selection` with the statements that `select` returns.
    fn snapshot_with(
        &mut self,
        selection: Selection,
        select: impl Fn(QueueLock) -> String,
    ) -> Result<Snapshot, Failure> {
        let snapshot = |queue_lock| statements::with_read_only(&select(queue_lock));
        let mut queue_lock = QueueLock::Available;
        let mut found = self.read_snapshot(RequestKind::Read, &snapshot(queue_lock));
        // If the server refuses named locks, the state of the holders' sessions is unknown.
        if matches!(&found, Err(failure) if failure.kind == FailureKind::NoQueueLock) {
            queue_lock = QueueLock::Unavailable;
            found = self.read_snapshot(RequestKind::Read, &snapshot(queue_lock));
        }
        let mut found = found?;
        // The records are read before the slots.
        if found.locks.iter().any(LockRecord::is_shared) {
            let slots = statements::select_slots(selection, queue_lock, None);
            let slots = self.exchange(RequestKind::Read, &slots, rows::slots_of_actions)?;
            found.add_slots(slots);
        }
        Ok(Snapshot {
            server: self.target().address.to_string(),
            skipped: self.skipped.clone(),
            ..found
        })
    }

    /// Sends a packet that reads a snapshot.
    pub(super) fn read_snapshot(
        &mut self,
        kind: RequestKind,
        packet: &str,
    ) -> Result<Snapshot, Failure> {
        let mut found = SnapshotRows::default();
        let mut take = |select: usize, row| found.take(select, row);
        let head = self.exchange_rows(kind, packet, &mut take, rows::snapshot_head)?;
        Ok(found.finish(head))
    }

    /// Returns the same as [`Database::snapshot`], but fails if the server is read-only. Waits for a Galera node that lags.
    ///
    /// # Errors
    /// Returns any failure. The kind is `Unreachable` if the server is read-only.
    pub fn current_snapshot(&mut self, selection: Selection) -> Result<Snapshot, Failure> {
        let snapshot = self.snapshot_with(selection, |queue_lock| {
            statements::synchronized(&statements::select_snapshot(selection, queue_lock))
        })?;
        match snapshot.is_read_only {
            true => Err(self.read_only()),
            false => Ok(snapshot),
        }
    }

    /// Returns the record of the contender's action, but fails if the server is read-only. Waits for a Galera node that
    /// lags. Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `Unreachable` if the server is read-only.
    pub fn current_record(&mut self, contender: &Contender) -> Result<LockRecord, Failure> {
        match self.current(contender) {
            Ok(found) => found.row.ok_or_else(rows::row_missing),
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Reads the record and the recorded success, but fails if the server is read-only. Waits for a Galera node that lags.
    /// An action without a row gets an unknown record.
    pub(super) fn current(&mut self, contender: &Contender) -> Result<ReadResult, Failure> {
        let select = statements::synchronized(&statements::select_success(contender));
        let select = statements::with_read_only(&select);
        let read = |sets: &[Vec<_>]| Ok((rows::is_read_only(sets)?, rows::read_result(sets)?));
        match self.exchange(RequestKind::Read, &select, read)? {
            (true, _) => Err(self.read_only()),
            (false, mut found) => {
                self.read_slots(contender, QueueLock::Unavailable, &mut found)?;
                Ok(found.or_unknown(&contender.action))
            }
        }
    }

    /// Returns the failure of a request that must not read old data from a replica.
    fn read_only(&self) -> Failure {
        let message = format!(
            "{} is read-only, probably a replica, and its data may be old; connect to the primary",
            self.target().address
        );
        self.with_skipped_hosts(Failure::new(FailureKind::Unreachable, message))
    }

    /// Reads the record of the contender's action, and returns true if the server is read-only. If there is a `leader`, first
    /// waits until its session ends, for at most the given time in whole seconds, where the server allows it. Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn leader(
        &mut self,
        contender: &Contender,
        leader: Option<(OwnerId, Duration)>,
    ) -> Result<(LockRecord, bool), Failure> {
        let select = |leader| statements::with_read_only(&statements::leader(contender, leader));
        let read = |sets: &[Vec<_>]| Ok((rows::read_result(sets)?, rows::is_read_only(sets)?));
        let longest = leader.map_or(Duration::ZERO, |(_, longest)| longest);
        let mut found = self.exchange(RequestKind::Follow(longest), &select(leader), read);
        if matches!(&found, Err(failure) if failure.kind == FailureKind::NoQueueLock) {
            found = self.exchange(RequestKind::Read, &select(None), read);
        }
        match found {
            Ok((mut found, is_read_only)) => {
                self.read_slots(contender, QueueLock::Unavailable, &mut found)?;
                let found = found.or_unknown(&contender.action);
                Ok((found.row.ok_or_else(rows::row_missing)?, is_read_only))
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Changes the note of a lease in `record` if the lease with `token` is current. Returns false if it is not.
    ///
    /// # Errors
    /// Returns any failure. After a failure, the result is unknown.
    pub fn change_note(
        &mut self,
        record: &LockRecord,
        token: Token,
        note: &str,
    ) -> Result<bool, Failure> {
        let change = statements::change_note(record, token, note);
        self.exchange(RequestKind::Plain, &change, rows::is_confirmed)
    }

    /// Returns the names of at most `limit` actions whose names begin with `prefix`, in byte order. Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn names(&mut self, prefix: &str, limit: u32) -> Result<Vec<Action>, Failure> {
        let names = statements::select_names(prefix, limit);
        self.exchange(RequestKind::Read, &names, rows::names)
    }

    /// Returns the most recent entries of the history, at most `limit`, newest first.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn history(
        &mut self,
        selection: Selection,
        filter: &HistoryFilter,
    ) -> Result<History, Failure> {
        let entries = statements::with_read_only(&statements::entries(selection, filter));
        self.exchange(RequestKind::Read, &entries, rows::history)
    }

    /// Removes the recorded success of `action` under `key`, and records that `operator` removed it. Returns true if
    /// there was such a success.
    ///
    /// # Errors
    /// Returns any failure. After a failure, either the success is still recorded, or the result is unknown.
    pub fn forget(
        &mut self,
        action: &Action,
        key: &OnceKey,
        operator: &Holder,
    ) -> Result<bool, Failure> {
        self.check_version()?;
        let forget = statements::forget(action, key, operator);
        self.exchange(RequestKind::Plain, &forget, rows::is_confirmed)
    }

    /// Returns the actions that `filter` selects, in byte order. Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn prunable(&mut self, filter: &PruneFilter) -> Result<Vec<Prunable>, Failure> {
        let prunable = statements::prunable(filter);
        self.exchange(RequestKind::Read, &prunable, rows::prunable)
    }

    /// Removes `prunable` and everything that is recorded about it, if nobody has used it since it was read. Returns true
    /// if it was removed.
    ///
    /// # Errors
    /// Returns any failure. After a failure, either nothing was removed, or the result is unknown.
    pub fn prune(&mut self, prunable: &Prunable, filter: &PruneFilter) -> Result<bool, Failure> {
        let prune = statements::prune(prunable, filter);
        self.exchange(RequestKind::Plain, &prune, rows::is_confirmed)
    }

    /// Applies an operator request to an action, if the record still has the token of the request. If `wakes` is true
    /// and the sessions of the holders are known, also tries to kill them, so that the holders reconnect and read their
    /// leases immediately. If a session is not killed, its holder detects the change at its next renewal.
    ///
    /// # Errors
    /// Returns any failure of the change. After a failure, either nothing was changed, or the result is unknown.
    pub fn apply_operator_request(
        &mut self,
        request: &OperatorRequest,
        wakes: bool,
    ) -> Result<OperatorResult, Failure> {
        // A pause creates the row of an action that was never held.
        let create = match request.kind {
            OperatorAction::Pause(_) => statements::create_row(&request.action),
            OperatorAction::Release | OperatorAction::Resume => String::new(),
        };
        let apply = statements::apply_operator_request(request, wakes);
        let packet = format!("{create}{apply}");
        Ok(
            match self.exchange(RequestKind::Plain, &packet, rows::operator_result)? {
                (false, _) => OperatorResult::Conflict,
                (true, sessions) => {
                    let killed = sessions.iter().filter(|it| self.kill_session(**it)).count();
                    let holders = request.slots.len().max(1);
                    OperatorResult::Applied {
                        woken: killed == holders,
                    }
                }
            },
        )
    }

    /// Kills a session, and returns true on success. The connection on which the session id was read must still be
    /// open, because a restarted server may assign the same id to a different session.
    fn kill_session(&mut self, session: u64) -> bool {
        let kill = statements::kill_session(session);
        self.connection.is_some()
            && self
                .exchange(RequestKind::Plain, &kill, rows::is_confirmed)
                .is_ok()
    }
}
