//! Ends the lease of a dlock that has died. Pure, without a clock or I/O.
//!
//! The process that survives dlock runs this machine after the command's whole tree is dead. It ends the sessions that
//! the command has left, and then releases the lease. It does not renew the lease, so it has only the time that the lease
//! still has. If that is too short, the lease expires, and the next holder ends the sessions.

use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};
use crate::protocol::release::{ReleaseStep, Releasing};
use crate::protocol::session_end::{EndingSessions, EndingStep};
use crate::store::session::SessionPolicy;
use crate::store::{ReleaseRequest, Request, Response, TimedResponse};

/// The next step for the caller.
#[derive(Debug)]
pub enum AbandonedStep {
    /// Send this request, then pass exactly one response to [`AbandonedLease::handle_response`].
    Send(Request),
    /// Send nothing before this instant.
    Wait(BootInstant),
    /// The lease is released, or is left to its expiry.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    EndingSessions(EndingSessions),
    Releasing(Releasing),
    Over,
}

/// The lease of a dlock that has died.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AbandonedLease {
    release: ReleaseRequest,
    /// The lease may expire after this instant.
    until: BootInstant,
    phase: Phase,
}

impl AbandonedLease {
    /// Creates the state of a lease that lasts at least until `until`. The command's tree is dead. `release` is the release
    /// after its run, to which the number of ended sessions is added.
    #[must_use]
    pub fn new(
        release: ReleaseRequest,
        policy: SessionPolicy,
        until: BootInstant,
        now: BootInstant,
    ) -> Self {
        let ignores =
            policy == SessionPolicy::Ignore || mutant::is_disabled(Safeguard::EndedSessions);
        Self {
            release,
            until,
            phase: match ignores {
                true => Phase::Releasing(Releasing::new(release, false, now)),
                false => Phase::EndingSessions(EndingSessions::of_record(now)),
            },
        }
    }

    /// Returns the next step at `now`. The caller must not call this method while a request is in flight.
    pub fn next(&mut self, now: BootInstant) -> AbandonedStep {
        if now >= self.until {
            self.phase = Phase::Over;
        }
        let step = match &mut self.phase {
            Phase::Over => return AbandonedStep::Over,
            Phase::EndingSessions(sessions) => match sessions.next(now) {
                EndingStep::Send(request) => AbandonedStep::Send(request),
                EndingStep::Wait(until) => AbandonedStep::Wait(until),
                EndingStep::Finished(killed) => {
                    self.release.clears_sessions = sessions.is_needed();
                    if let Some(run) = &mut self.release.run {
                        run.sessions_ended = killed;
                    }
                    self.phase = Phase::Releasing(Releasing::new(self.release, false, now));
                    return self.next(now);
                }
            },
            Phase::Releasing(releasing) => match releasing.next(now) {
                ReleaseStep::Send(request) => AbandonedStep::Send(request),
                ReleaseStep::Wait(until) => AbandonedStep::Wait(until.unwrap_or(now)),
                ReleaseStep::Finished(_) => AbandonedStep::Over,
            },
        };
        match step {
            AbandonedStep::Wait(until) => AbandonedStep::Wait(until.min(self.until)),
            step => step,
        }
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: TimedResponse) {
        match (&mut self.phase, &response.outcome) {
            // The sessions in the record are those of another holder's command.
            (Phase::EndingSessions(_), Ok(Response::Record(record)))
                if record.owner_id != Some(self.release.owner_id) =>
            {
                self.phase = Phase::Over;
            }
            (Phase::EndingSessions(sessions), _) => sessions.handle_response(now, response),
            (Phase::Releasing(releasing), _) => releasing.handle_response(now, &response),
            (Phase::Over, _) => {}
        }
    }

    /// Returns the token of the lease.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.release.token
    }

    /// Removes history that does not affect the next steps from `now` on. The protocol model calls this method to
    /// recognise a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        match &mut self.phase {
            Phase::EndingSessions(sessions) => sessions.normalize_for_model(now),
            Phase::Releasing(releasing) => releasing.normalize_for_model(now),
            Phase::Over => {}
        }
    }
}

#[cfg(test)]
mod tests;
