//! The wait of a keeper until the sessions of a command have ended. The lease is renewed during the wait. Pure.

use std::time::Duration;

use super::notice::{Notice, SessionOwner, SessionsNotEnded};
use crate::lease::instant::BootInstant;
use crate::protocol::renew::Renewals;
use crate::protocol::session_end::{EndingSessions, EndingStep};
use crate::store::{Request, TimedResponse};

/// The proof that the lease exists on the server of the next request. After a connection has ended, the next one may
/// lead to another server, which may lack the lease. A contender then renews its lease before it looks for sessions there,
/// and before its work starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LeaseProof {
    /// A renewal on the present connection, or no renewal is necessary.
    Renewed,
    /// Nothing. The next renewal that succeeds is a proof.
    Missing,
    /// Nothing. The request in flight was sent before the connection ended, so its response is no proof.
    AfterOpenRequest,
}

/// A wait until sessions have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionWait {
    ending: EndingSessions,
    owner: SessionOwner,
    proof: LeaseProof,
    /// Instant at which the wait ends if a look has been tried, or if it is for a single look, even without a response. None
    /// waits until the sessions have ended.
    until: Option<BootInstant>,
    /// Instant until which the wait continues even if the lease has expired.
    at_least: BootInstant,
}

/// The next step of a wait.
#[derive(Debug)]
pub(super) enum SessionWaitStep {
    /// Send this renewal of the lease.
    Renew(Request),
    /// Send this request about the sessions.
    Send(Request),
    /// Send nothing before this instant. None waits for the response in flight.
    Wait(Option<BootInstant>),
    /// No session is left. Contains the number of sessions that were killed.
    Ended(u32),
    /// Sessions may be left.
    NotEnded(SessionsNotEnded),
}

impl SessionWait {
    pub(super) const fn new(
        ending: EndingSessions,
        owner: SessionOwner,
        until: Option<BootInstant>,
        at_least: BootInstant,
    ) -> Self {
        Self {
            ending,
            owner,
            proof: LeaseProof::Renewed,
            until,
            at_least,
        }
    }

    /// Returns whose sessions have to end.
    #[must_use]
    pub const fn owner(&self) -> SessionOwner {
        self.owner
    }

    /// Returns what is known about the sessions.
    #[must_use]
    pub const fn sessions(&self) -> &EndingSessions {
        &self.ending
    }

    /// Returns the next step at `now`. `is_open` is true while a request is in flight.
    pub(super) fn next(
        &self,
        now: BootInstant,
        renewals: &mut Renewals,
        is_open: bool,
    ) -> SessionWaitStep {
        let is_proven = !is_open && self.proof == LeaseProof::Renewed;
        let next = is_proven.then(|| self.ending.next(now));
        if let Some(EndingStep::Finished(killed)) = next {
            return SessionWaitStep::Ended(killed);
        }
        // If the lease cannot be renewed any more, a contender takes it over and ends the sessions.
        let expires = renewals.deadline().kill.max(self.at_least);
        if now >= expires {
            return SessionWaitStep::NotEnded(SessionsNotEnded::Unreachable);
        }
        if !is_open && let Some(mut request) = renewals.due(now) {
            request.look = self.ending.renewal_look().map(Box::new);
            return SessionWaitStep::Renew(Request::Renew(request));
        }
        let has_tried = self.ending.has_looked()
            || self.ending.failure().is_some()
            || self.ending.is_single_look();
        if has_tried && self.until.is_some_and(|until| now >= until) {
            return SessionWaitStep::NotEnded(SessionsNotEnded::TimedOut);
        }
        let next_at = match next {
            Some(EndingStep::Send(request)) => return SessionWaitStep::Send(request),
            Some(EndingStep::Wait(at)) => Some(at),
            Some(EndingStep::Finished(_)) | None => None,
        };
        let wake = renewals.wake_at().filter(|_| !is_open);
        let wake = wake.into_iter().chain(next_at).min();
        let until = self.until.filter(|until| now < *until);
        SessionWaitStep::Wait([wake, until, Some(expires)].into_iter().flatten().min())
    }

    /// Handles the response to a request about the sessions.
    pub(super) fn handle_response(
        &mut self,
        now: BootInstant,
        response: TimedResponse,
        renewals: &mut Renewals,
    ) {
        self.responded(false);
        if response.outcome.is_err() {
            self.require_renewal(false);
            renewals.expedite(now);
        }
        self.ending.handle_response(now, response);
    }

    /// Handles the end of a renewal, which caused `notice`.
    pub(super) fn handle_renewal(&mut self, notice: &Notice) {
        self.responded(matches!(notice, Notice::Renewed { .. }));
        // An error has ended the connection.
        if let Notice::RenewalFailed { .. } | Notice::GrantLost { .. } = notice {
            self.require_renewal(false);
        }
    }

    fn responded(&mut self, is_renewed: bool) {
        self.proof = match self.proof {
            LeaseProof::AfterOpenRequest => LeaseProof::Missing,
            LeaseProof::Missing if is_renewed => LeaseProof::Renewed,
            proof => proof,
        };
    }

    /// Records that the connection has ended, or that the lease may be lost. `is_open` is true while a request is in
    /// flight.
    pub(super) fn require_renewal(&mut self, is_open: bool) {
        self.proof = match (self.owner, is_open) {
            (SessionOwner::OwnWork, _) => LeaseProof::Renewed,
            (SessionOwner::EarlierRun, true) => LeaseProof::AfterOpenRequest,
            (SessionOwner::EarlierRun, false) => LeaseProof::Missing,
        };
    }

    /// Removes history that does not affect the behaviour from `now` on.
    pub(super) fn normalize_for_model(&mut self, now: BootInstant) {
        self.ending.normalize_for_model(now);
        if self.at_least <= now {
            self.at_least = BootInstant::new(Duration::ZERO);
        }
    }
}
