//! Requests that are not part of a run: they read records, waiters and the history, forget a success, and apply an
//! operator request.

use super::database::Database;
use super::exchange::RequestKind;
use super::rows;
use super::statements::{self, Selection};
use crate::lease::action::Action;
use crate::lease::once::OnceKey;
use crate::store::operator::{OperatorAction, OperatorRequest, OperatorResult};
use crate::store::{
    Failure, FailureKind, HistoryEntry, HistoryFilter, Holder, QueueLock, Snapshot,
};

impl Database {
    /// Returns the records of the actions in `selection`, sorted by action, and their waiters, sorted by position.
    /// Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn snapshot(&mut self, selection: Selection) -> Result<Snapshot, Failure> {
        let snapshot = statements::select_snapshot(selection, QueueLock::Available);
        match self.exchange(RequestKind::Plain, &snapshot, rows::snapshot) {
            // If the server refuses named locks, the state of the holders' sessions is unknown.
            Err(failure) if failure.kind == FailureKind::NoQueueLock => {
                let snapshot = statements::select_snapshot(selection, QueueLock::Unavailable);
                self.exchange(RequestKind::Plain, &snapshot, rows::snapshot)
            }
            outcome => outcome,
        }
    }

    /// Returns the names of at most `limit` actions whose names begin with `prefix`, in byte order. Changes no row.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn names(&mut self, prefix: &str, limit: u32) -> Result<Vec<Action>, Failure> {
        let names = statements::select_names(prefix, limit);
        self.exchange(RequestKind::Plain, &names, rows::names)
    }

    /// Returns the most recent entries of the history, at most `limit`, newest first.
    ///
    /// # Errors
    /// Returns any failure. The kind is `NoTables` if a table is missing.
    pub fn history(
        &mut self,
        selection: Selection,
        filter: &HistoryFilter,
    ) -> Result<Vec<HistoryEntry>, Failure> {
        let entries = statements::entries(selection, filter);
        self.exchange(RequestKind::Plain, &entries, rows::entries)
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

    /// Applies an operator request to an action, if the record still has the token of the request. If `wakes` is true
    /// and the holder's session is known, also tries to kill the session, so that the holder reconnects and reads its
    /// record immediately. If the session is not killed, the holder detects the change at its next renewal.
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
                (true, session) => OperatorResult::Applied {
                    woken: session.is_some_and(|session| self.kill_session(session)),
                },
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
