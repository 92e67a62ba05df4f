//! The wait of a parent until the sessions of a command have ended, like `commands::exec::sessions`. The parent runs the
//! real [`EndingSessions`] and renews its lease.

use std::sync::Arc;

use dlock::outcome::RunOutcome;
use dlock::protocol::acquire::AcquiredLease;
use dlock::protocol::renew::{Liveness, RenewalOutcome, Renewals};
use dlock::protocol::session_end::{EndingSessions, EndingStep};
use dlock::store::session::SessionLook;
use dlock::store::{EarlierSessions, Loss, ReleaseRequest, Request, TimedResponse};

use crate::client::{Client, Parent};
use crate::mutation::Variant;
use crate::time::{Tick, instant, timing};

/// Number of ticks for which a parent waits even if its lease has expired, which is twice the request timeout.
const SHORTEST_WAIT: Tick = 2;

/// A wait for sessions to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ending {
    sessions: EndingSessions,
    renewals: Renewals,
    lease: AcquiredLease,
    /// The run of this process that has ended. None if the sessions belong to an earlier run.
    run: Option<EndedRun>,
    /// True if the request in flight is a renewal.
    is_renewing: bool,
    /// Tick until which the wait continues even if the lease has expired.
    until: Tick,
}

/// A run whose command is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EndedRun {
    pub(crate) outcome: RunOutcome,
    pub(crate) loss: Option<Loss>,
    /// True if the row may contain sessions.
    pub(crate) is_recorded: bool,
    /// True if the release removes them when none is left.
    pub(crate) clears_record: bool,
}

/// How the wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// No session is left. Contains the number of killed sessions.
    Gone(u32),
    /// Sessions may be left: a signal has ended the wait, or the lease has expired or is lost.
    Given,
}

impl Ending {
    /// Returns the wait for the sessions of the record. None if the contender need not wait.
    pub(crate) fn of_record(now: Tick, client: &Client, lease: AcquiredLease) -> Option<Self> {
        let must_wait = lease.earlier_sessions == EarlierSessions::Noted && !client.ignores();
        must_wait.then(|| {
            let (grant, sent) = (lease.grant, lease.sent);
            let liveness = Liveness::NotRequired;
            let renewals = Renewals::new(grant, lease.queue_lock, timing(), sent, liveness);
            Self::new(
                now,
                EndingSessions::of_record(instant(now)),
                renewals,
                lease,
                None,
            )
        })
    }

    /// Returns the wait for the sessions of the client's own command.
    pub(crate) fn of_run(
        now: Tick,
        look: SessionLook,
        renewals: Renewals,
        lease: AcquiredLease,
        run: EndedRun,
    ) -> Self {
        Self::new(
            now,
            EndingSessions::new(look, instant(now)),
            renewals,
            lease,
            Some(run),
        )
    }

    fn new(
        now: Tick,
        sessions: EndingSessions,
        mut renewals: Renewals,
        lease: AcquiredLease,
        run: Option<EndedRun>,
    ) -> Self {
        renewals.continue_without_command();
        Self {
            sessions,
            renewals,
            lease,
            run,
            is_renewing: false,
            until: now + SHORTEST_WAIT,
        }
    }

    pub(crate) const fn lease(&self) -> AcquiredLease {
        self.lease
    }

    /// Removes state that no longer has an effect.
    pub(crate) fn normalize(&mut self, now: Tick) {
        self.sessions.normalize_for_model(instant(now));
        if self.until <= now {
            self.until = 0;
        }
    }
}

impl Client {
    /// Makes a step of the wait. Returns false if no step was possible.
    pub(crate) fn act_while_ending(&mut self, now: Tick, variant: Variant) -> bool {
        let Parent::Ending(wait) = &mut self.parent else {
            return false;
        };
        let wait = Arc::make_mut(wait);
        let expires = wait.renewals.deadline().kill.max(instant(wait.until));
        if let Some(mut request) = wait.renewals.due(instant(now)) {
            wait.is_renewing = true;
            request.look = wait.sessions.renewal_look().map(Box::new);
            self.send(now, Request::Renew(request));
            return true;
        }
        match wait.sessions.next(instant(now)) {
            EndingStep::Send(request) => {
                wait.is_renewing = false;
                self.send(now, request);
            }
            EndingStep::Finished(killed) => self.end_wait(now, WaitEnd::Gone(killed), variant),
            EndingStep::Wait(_) if instant(now) >= expires => {
                self.end_wait(now, WaitEnd::Given, variant);
            }
            EndingStep::Wait(_) => return false,
        }
        true
    }

    /// Passes a response to the wait.
    pub(crate) fn handle_response_while_ending(
        &mut self,
        now: Tick,
        response: TimedResponse,
        variant: Variant,
    ) {
        let Parent::Ending(wait) = &mut self.parent else {
            return;
        };
        let wait = Arc::make_mut(wait);
        if !wait.is_renewing {
            wait.sessions.handle_response(instant(now), response);
        } else if let RenewalOutcome::Lost(..) =
            wait.renewals.handle_response(instant(now), response)
            && wait.run.is_none()
        {
            return self.end_wait(now, WaitEnd::Given, variant);
        }
        self.act(now, variant);
    }

    /// Ends the wait without regard to the sessions that are left, for example because of a signal.
    pub(crate) fn give_up_waiting(&mut self, now: Tick, variant: Variant) {
        self.end_wait(now, WaitEnd::Given, variant);
    }

    fn end_wait(&mut self, now: Tick, end: WaitEnd, variant: Variant) {
        let Parent::Ending(wait) = &self.parent else {
            return;
        };
        let run = wait.run;
        let lease = AcquiredLease {
            queue_lock: wait.renewals.queue_lock(),
            ..wait.lease
        };
        let sent = wait.renewals.proven();
        let earlier_sessions = match wait.sessions.is_needed() {
            true => EarlierSessions::Noted,
            false => EarlierSessions::None,
        };
        let removes_note = variant == Variant::NoteRemovedTooEarly;
        match (end, run) {
            (WaitEnd::Gone(_), None) => {
                self.parent = Parent::Granted(AcquiredLease {
                    sent,
                    earlier_sessions,
                    ..lease
                });
            }
            (WaitEnd::Gone(killed), Some(run)) => {
                self.begin_release(now, lease, run, run.clears_record, killed, variant);
            }
            (WaitEnd::Given, Some(run)) => {
                self.begin_release(
                    now,
                    lease,
                    run,
                    run.clears_record && removes_note,
                    0,
                    variant,
                );
            }
            (WaitEnd::Given, None) => {
                let grant = lease.grant;
                let request = ReleaseRequest {
                    has_entry: lease.has_entry,
                    clears_sessions: removes_note,
                    ..ReleaseRequest::without_run(
                        grant.owner_id,
                        Some(grant.token),
                        lease.queue_lock,
                    )
                };
                self.release_without_run(now, request);
            }
        }
    }
}
