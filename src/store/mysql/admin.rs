//! Requests that are not part of a run: they read records, waiters and the history, forget a success, and apply an
//! operator request.

use super::database::Database;
use super::exchange::RequestKind;
use super::rows;
use super::statements::{self, Selection};
use crate::lease::action::Action;
use crate::lease::once::OnceKey;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::{Failure, FailureKind, HistoryEntry, Holder, QueueLock, Snapshot};

impl Database {
    /// Returns the records of the actions in `selection`, sorted by action, and their waiters, sorted by position.
    /// Changes nothing.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn snapshot(&mut self, selection: Selection) -> Result<Snapshot, Failure> {
        let snapshot = statements::select_snapshot(selection, QueueLock::Available);
        match self.exchange(RequestKind::Plain, &snapshot, rows::snapshot) {
            // Without named locks, the state of the holders' sessions is unknown.
            Err(failure) if failure.kind == FailureKind::NoQueueLock => {
                let snapshot = statements::select_snapshot(selection, QueueLock::Unavailable);
                self.exchange(RequestKind::Plain, &snapshot, rows::snapshot)
            }
            outcome => outcome,
        }
    }

    /// Returns the last `limit` entries of the history, newest first.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn history(
        &mut self,
        selection: Selection,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, Failure> {
        let entries = statements::entries(selection, limit);
        self.exchange(RequestKind::Plain, &entries, rows::entries)
    }

    /// Removes the recorded success of `action` under `key`, and records `operator` as the author. Returns true if
    /// there was such a success.
    ///
    /// # Errors
    /// Returns any failure. After a failure, the success is still recorded, or its state is unknown.
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

    /// Applies an operator request to an action, if the record still has the token of the request. If `wakes` is true,
    /// also kills the holder's session, if the session is known, so that the holder reconnects and reads its record
    /// immediately. Otherwise the holder detects the change at its next renewal.
    ///
    /// # Errors
    /// Returns any failure of the change. After a failure, nothing was changed, or the result is unknown.
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
                (true, session) => OperatorResult::Applied {
                    woken: session.is_some_and(|session| self.kill_session(session)),
                },
            },
        )
    }

    /// Kills another session of this account, and returns true on success. It requires the connection on which the
    /// session id was read, because a restarted server may have assigned the same id to another session.
    fn kill_session(&mut self, session: u64) -> bool {
        let kill = statements::kill_session(session);
        self.connection.is_some()
            && self
                .exchange(RequestKind::Plain, &kill, rows::is_confirmed)
                .is_ok()
    }
}
