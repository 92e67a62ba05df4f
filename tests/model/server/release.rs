//! The release and the history of the model's server.

use dlock::lease::Token;
use dlock::store::read_back::{NextGrant, ReleaseReadBack};
use dlock::store::{HistoryOutcome, QueueLock, ReleaseRequest};

use super::{NUMBER_BYTE, Row, Rule, Rules, Server, Session};

impl Row {
    /// Ends the lease, and removes the noted sessions if the release says so.
    fn free(&mut self, clock: i8, request: &ReleaseRequest) {
        self.owner_id = None;
        self.expires = clock;
        if request.clears_sessions {
            self.note = None;
            self.may_have_noted_slots = false;
        }
    }
}

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
        let is_exclusive = self.limit_of(owner_id).is_exclusive();
        let is_owner = match request.token {
            Some(_) => self.is_held_by(owner_id, request.token, rules),
            None => self.held_lease_of(owner_id).is_some(),
        };
        let token = (request.token)
            .and_then(|token| u8::try_from(token.0).ok())
            .filter(|_| request.run.is_some());
        let is_success = request.run.is_some_and(|run| run.outcome.is_success());
        if is_owner && let Some(row) = self.lease_of_mut(owner_id) {
            row.free(clock, request);
            let token = row.token;
            self.success = match self.success {
                Some(0) if is_success => Some(token),
                success => success,
            };
        }
        if !is_exclusive {
            self.free_shared_record();
        }
        let has_token = |row: &Row| Some(row.token) == token;
        let has_next = match is_exclusive {
            true => token.is_some_and(|token| self.row.token > token),
            false => token.is_some() && !self.slots.iter().any(|slot| has_token(&slot.row)),
        };
        let next = match (has_next, request.handed_off) {
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
            self.holder_locks.retain(|it| *it != (owner_id, session));
            self.release_queue_lock(session);
        }
        if request.has_entry {
            self.queue.retain(|entry| entry.owner_id != owner_id);
        }
        let lease = self.held_lease_of(owner_id);
        let is_left = |row: &Row| request.token.is_none_or(|it| it == row.version().token);
        let revoked = lease.filter(|row| row.revoked);
        let outcome = token.and_then(|token| self.recorded(token));
        ReleaseReadBack {
            changed: is_owner,
            is_named: lease.is_some_and(is_left) || revoked.is_some(),
            next,
            revoked: revoked.map(|row| row.version().token),
            is_recorded: (self.success).filter(|_| is_success).map(|success| {
                let has_ended = is_owner || matches!(outcome, Some(HistoryOutcome::Exited(_)));
                let may_be_another = has_ended && !rules.has(Rule::OnlyOwnSuccessCounts);
                Some(success) == token || success > 0 && may_be_another
            }),
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
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let is_exclusive = self.limit_of(owner_id).is_exclusive();
        let is_revoked = |row: &&mut Row| {
            row.owner_id == Some(owner_id) && row.revoked && revoked == Some(row.version().token)
        };
        if let Some(row) = self.lease_of_mut(owner_id).filter(is_revoked) {
            row.free(clock, request);
        }
        let is_run = |row: &&Row| {
            let has_token = request.token == Some(row.version().token);
            request.run.is_some() && has_token && row.owner_id.is_none()
        };
        let found = match is_exclusive {
            true => Some(&self.row).filter(is_run),
            false => self.slots.iter().map(|slot| &slot.row).find(is_run),
        };
        if let Some(token) = found.map(|row| row.token) {
            self.record(token, HistoryOutcome::Revoked);
        }
        if !is_exclusive {
            self.free_shared_record();
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
