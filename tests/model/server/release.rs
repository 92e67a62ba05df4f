//! The release and the history of the model's server.

use dlock::lease::Token;
use dlock::store::read_back::{NextGrant, ReleaseReadBack};
use dlock::store::{HistoryOutcome, QueueLock, ReleaseRequest};

use super::{NUMBER_BYTE, Rules, Server, Session};

impl Server {
    /// Executes a release and records the run in the history. Returns the values that the release reads back.
    pub(super) fn release(
        &mut self,
        clock: i8,
        session: Session,
        request: &ReleaseRequest,
        rules: Rules,
    ) -> ReleaseReadBack {
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let is_named = |server: &Self| server.row.owner_id == Some(owner_id);
        let is_owner = match request.token {
            Some(_) => self.is_held_by(owner_id, request.token, rules),
            None => is_named(self),
        };
        let token = request
            .token
            .and_then(|token| u8::try_from(token.0).ok())
            .filter(|_| request.run.is_some());
        let is_success = request.run.is_some_and(|run| run.outcome.is_success());
        if is_owner {
            if is_success && self.success == Some(0) {
                self.success = Some(self.row.token);
            }
            self.row.owner_id = None;
            self.row.expires = clock;
            self.clear_note(request);
        }
        let next = match (
            token.is_some_and(|token| self.row.token > token),
            request.handed_off,
        ) {
            (false, _) => NextGrant::None,
            (true, true) => NextGrant::HandedOff,
            (true, false) => NextGrant::Other,
        };
        if let (Some(token), Some(run)) = (token, request.run)
            && (is_owner || next == NextGrant::HandedOff)
        {
            self.record(token, run.outcome);
        }
        if request.handed_off && token.is_some() {
            let mut handed_off = self.handed_off.iter();
            if let Some(at) = handed_off.position(|hand_off| *hand_off == (owner_id, session)) {
                self.handed_off.remove(at);
            }
        }
        if request.queue_lock == QueueLock::Available {
            self.release_queue_lock(session);
        }
        if request.has_entry {
            self.queue.retain(|entry| entry.owner_id != owner_id);
        }
        let is_revoked = is_named(self) && self.row.revoked;
        let is_left = is_named(self)
            && request
                .token
                .is_none_or(|token| token.0 == u64::from(self.row.token));
        let outcome = token.and_then(|token| self.recorded(token));
        ReleaseReadBack {
            changed: is_owner,
            is_named: is_left || is_revoked,
            next,
            revoked: is_revoked.then_some(Token(self.row.token.into())),
            is_recorded: self
                .success
                .filter(|_| is_success)
                .map(|success| Some(success) == token),
            outcome,
        }
    }

    /// Frees the row if it contains the owner id of the request and still has `revoked`, the token that the operator's
    /// release set. Records the run as revoked if the row is free and the run was the most recent one that held the
    /// row.
    pub(super) fn reconcile(
        &mut self,
        clock: i8,
        request: &ReleaseRequest,
        revoked: Option<Token>,
    ) {
        let token = Token(self.row.token.into());
        let is_named = self.row.owner_id == Some(request.owner_id.bytes()[NUMBER_BYTE]);
        if is_named && self.row.revoked && revoked == Some(token) {
            self.row.owner_id = None;
            self.row.expires = clock;
            self.clear_note(request);
        }
        if request.run.is_some() && request.token == Some(token) && self.row.owner_id.is_none() {
            self.record(self.row.token, HistoryOutcome::Revoked);
        }
    }

    /// Removes the noted sessions if the release says so.
    const fn clear_note(&mut self, request: &ReleaseRequest) {
        if request.clears_sessions {
            self.row.note = None;
            self.row.may_have_noted_slots = false;
        }
    }

    /// Records the outcome of a run. Does nothing if the history already contains the run.
    pub(super) fn record(&mut self, token: u8, outcome: HistoryOutcome) {
        if self.recorded(token).is_none() {
            self.history.push((token, outcome));
            self.history.sort_unstable_by_key(|(token, _)| *token);
            if outcome == HistoryOutcome::Exited(0) {
                self.leave_statements(token);
            }
        }
    }

    /// Returns the recorded outcome of the run with `token`. None if the history does not contain the run.
    pub(crate) fn recorded(&self, token: u8) -> Option<HistoryOutcome> {
        let found = self.history.iter().find(|(other, _)| *other == token);
        found.map(|(_, outcome)| *outcome)
    }
}
