//! The phases of a keeper in which no work runs any more, or not yet: the end of sessions, and the release.

use std::mem;
use std::time::Duration;

use super::lease::KeptLease;
use super::{
    Keeper, LeftSessions, Notice, Phase, ReleaseEffort, Sender, SessionOwner, SessionWait,
    SessionWaitStep, SessionsNotEnded, Step, WorkEnd,
};
use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::protocol::release::{ReleaseLimits, ReleaseStep, Releasing};
use crate::protocol::session_end::EndingSessions;
use crate::protocol::sessions::SessionTracker;
use crate::store::{EarlierSessions, ReleaseRequest};

/// Maximum time to release a lease under which no work has started.
const UNUSED_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time to look for statements that successful work has left on the server. They are only reported.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

impl Keeper {
    pub(super) fn poll_sessions(&mut self, now: BootInstant) -> Option<Step> {
        let is_open = self.in_flight.is_some();
        let (Phase::EndingEarlier(lease, wait) | Phase::EndingOwn(lease, wait, _)) =
            &mut self.phase
        else {
            return None;
        };
        match wait.next(now, &mut lease.renewals, is_open) {
            SessionWaitStep::Renew(request) => return Some(self.send(Sender::Renewals, request)),
            SessionWaitStep::Send(request) => return Some(self.send(Sender::Sessions, request)),
            SessionWaitStep::Wait(at) => return Some(Step::Wait(at)),
            SessionWaitStep::Ended(killed) => self.sessions_ended(now, killed),
            SessionWaitStep::NotEnded(why) => self.sessions_not_ended(now, why),
        }
        None
    }

    pub(super) fn sessions_ended(&mut self, now: BootInstant, killed: u32) {
        match mem::replace(&mut self.phase, Phase::Over) {
            Phase::EndingEarlier(mut lease, wait) => {
                self.push(Notice::SessionsEnded(SessionOwner::EarlierRun, killed));
                lease.killed += killed;
                let is_needed = wait.sessions().is_needed();
                lease.sessions = SessionTracker::new(
                    lease.renewals.grant().token,
                    self.settings.policy,
                    match is_needed {
                        true => EarlierSessions::Noted,
                        false => EarlierSessions::None,
                    },
                );
                self.hold(lease);
            }
            Phase::EndingOwn(lease, wait, end) if wait.sessions().is_single_look() => {
                self.push(Notice::Executing(wait.sessions().left().to_vec()));
                self.release(now, &lease, end, true);
            }
            Phase::EndingOwn(mut lease, wait, end) => {
                self.push(Notice::SessionsEnded(SessionOwner::OwnWork, killed));
                lease.killed += killed;
                // If the record had no note, a late renewal may still add one, for sessions that have not ended.
                self.release(now, &lease, end, wait.sessions().is_needed());
            }
            phase => self.phase = phase,
        }
    }

    pub(super) fn sessions_not_ended(&mut self, now: BootInstant, why: SessionsNotEnded) {
        let Some(wait) = self.session_wait() else {
            return;
        };
        let (owner, sessions) = (wait.owner(), wait.sessions());
        let is_single_look = sessions.is_single_look();
        if !is_single_look {
            let left = sessions.left().first().cloned().map(Box::new);
            self.push(Notice::SessionsNotEnded { owner, why, left });
        }
        match mem::replace(&mut self.phase, Phase::Over) {
            // The sessions of successful work may continue.
            Phase::EndingOwn(lease, _, end) => self.release(now, &lease, end, is_single_look),
            phase => {
                self.phase = phase;
                self.release_unused(now);
            }
        }
    }

    /// Begins the release of a lease under which no work has started.
    pub(super) fn release_unused(&mut self, now: BootInstant) {
        let (Phase::EndingEarlier(lease, _) | Phase::Held(lease)) = &self.phase else {
            return;
        };
        let Grant {
            owner_id, token, ..
        } = lease.renewals.grant();
        let queue_lock = lease.renewals.queue_lock();
        let request = ReleaseRequest {
            has_entry: lease.has_entry,
            ..ReleaseRequest::without_run(owner_id, Some(token), queue_lock)
        };
        // The user expects dlock to end soon. If the release fails, the lease ends when it expires.
        self.release_by(now, request, now + UNUSED_TIMEOUT);
    }

    pub(super) fn work_ended(&mut self, now: BootInstant, end: WorkEnd) {
        let ends_sessions = self.ends_sessions();
        let phase = mem::replace(&mut self.phase, Phase::Over);
        let Phase::Held(mut lease) = phase else {
            self.phase = phase;
            return;
        };
        let look = lease.sessions.left().filter(|_| ends_sessions);
        match (look, end.sessions) {
            (None, _) | (Some(_), LeftSessions::Keep) => self.release(now, &lease, end, true),
            (Some(look), mode) => {
                lease.renewals.continue_without_command();
                let (ending, until) = match mode {
                    LeftSessions::Look => (
                        EndingSessions::single_look(look, now),
                        Some(now + LOOK_TIMEOUT),
                    ),
                    _ => (EndingSessions::new(look, now), None),
                };
                let at_least = now + 2 * self.settings.timing.request_timeout;
                let wait = SessionWait::new(ending, SessionOwner::OwnWork, until, at_least);
                self.phase = Phase::EndingOwn(lease, wait, end);
            }
        }
    }

    /// Begins the release after the work. `is_clear` is true if no session of the work is left on the server.
    pub(super) fn release(
        &mut self,
        now: BootInstant,
        lease: &KeptLease,
        end: WorkEnd,
        is_clear: bool,
    ) {
        let mut request = ReleaseRequest {
            queue_lock: lease.renewals.queue_lock(),
            has_entry: lease.has_entry,
            clears_sessions: is_clear && lease.sessions.clears_record(),
            ..end.release
        };
        if let Some(run) = &mut request.run {
            run.sessions_ended += lease.killed;
        }
        // A hand-off would leave the noted sessions in the record, because the release of a lease that was handed off
        // does not change the row. A holder in a slot has no queue lock to hand off.
        let is_awaited = lease.is_awaited(end.took)
            && !lease.sessions.is_recorded()
            && self.settings.limit.is_exclusive();
        let soon = now + 2 * self.settings.timing.request_timeout;
        let (hands_off, until) = match end.effort {
            ReleaseEffort::Brief { may_hand_off } => (may_hand_off && is_awaited, soon),
            ReleaseEffort::WithinLease => (false, lease.renewals.deadline().kill),
            ReleaseEffort::Persistent => (false, lease.renewals.deadline().kill.max(soon)),
        };
        let limits = ReleaseLimits {
            until,
            persists_until: soon,
            interrupt_at: None,
        };
        self.phase = Phase::Releasing(Releasing::new(request, hands_off, limits, now));
    }

    /// Begins a release without a run, which is given up at `until`.
    pub(super) fn release_by(
        &mut self,
        now: BootInstant,
        request: ReleaseRequest,
        until: BootInstant,
    ) {
        let limits = ReleaseLimits::until(until);
        self.phase = Phase::Releasing(Releasing::new(request, false, limits, now));
    }

    pub(super) fn poll_releasing(&mut self, now: BootInstant) -> Option<Step> {
        let is_open = self.in_flight.is_some();
        let Phase::Releasing(release) = &mut self.phase else {
            return None;
        };
        let notice = match release.next(now, is_open) {
            ReleaseStep::Send(request) => return Some(self.send(Sender::Release, request)),
            ReleaseStep::Interrupt => return Some(Step::Interrupt),
            ReleaseStep::Wait(at) => return Some(Step::Wait(Some(at))),
            ReleaseStep::Finished(released) => Notice::Released(released),
            ReleaseStep::GivenUp(failure) => Notice::NotReleased(failure),
        };
        self.notices.push_back(notice);
        self.phase = Phase::Over;
        None
    }
}
