//! The phases of a keeper before its work starts: the wait for the lease, the check of the address, and the grant.

use std::mem;
use std::time::Duration;

use super::{
    Keeper, KeeperSettings, KeptLease, Notice, Phase, Sender, SessionOwner, SessionWait, Step,
    Unreported,
};
use crate::lease::instant::BootInstant;
use crate::lease::timing::address_check_interval;
use crate::protocol::acquire::{AcquiredLease, NextRequest, NotGranted};
use crate::protocol::address::AddressChecks;
use crate::protocol::release::{ReleaseLimits, Releasing};
use crate::protocol::renew::{Liveness, Renewals};
use crate::protocol::session_end::EndingSessions;
use crate::protocol::sessions::SessionTracker;
use crate::store::{NoteRequest, QueueLock, Request, Response, TimedResponse};

/// Maximum time to release what a contender may have been granted, and to leave the queue, after it has given up. A user
/// who set a time limit or sent a signal expects dlock to end within a tenth of a second.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(60);

impl Keeper {
    pub(super) fn poll_acquiring(&mut self, now: BootInstant) -> Option<Step> {
        if let Phase::ConfirmingAddress(_, _, until) = &self.phase {
            if now < *until {
                return Some(Step::Wait(Some(*until)));
            }
            if let Phase::ConfirmingAddress(_, lease, _) =
                mem::replace(&mut self.phase, Phase::Over)
            {
                // A read that has not ended proves nothing.
                self.begin(now, lease);
            }
            return None;
        }
        let Phase::Acquiring(acquire, unreported) = &mut self.phase else {
            return None;
        };
        let next = acquire.next(now);
        // A contender that gives up reports the reason in one notice, and one that takes over the lease immediately has
        // nothing to report.
        let unreported = unreported.take();
        let is_taken_over = matches!(
            &next,
            NextRequest::Send(Request::TryAcquire(request)) if request.is_take_over()
        );
        if let (Some(failure), NextRequest::Send(_) | NextRequest::Wait(_), false) =
            (unreported, &next, is_taken_over)
        {
            self.notices.push_back(Notice::Waiting(failure));
        }
        let reason = match next {
            NextRequest::Send(request) => return Some(self.send(Sender::Acquire, request)),
            NextRequest::Wait(until) => return Some(Step::Wait(Some(until))),
            NextRequest::Granted(lease) => {
                self.granted(now, lease);
                return None;
            }
            NextRequest::NotGranted(reason) => reason,
        };
        let time = match reason {
            // Neither a time limit nor a signal ended this wait, so the release is not urgent.
            NotGranted::AlreadyDone(_) => 2 * self.settings.timing.request_timeout,
            _ => LEAVE_TIMEOUT,
        };
        self.notices.push_back(Notice::NotGranted(reason));
        self.leave(now, time);
        None
    }

    /// Begins the life of a lease that was granted.
    pub(super) fn granted(&mut self, now: BootInstant, acquired: AcquiredLease) {
        let KeeperSettings {
            timing,
            limit,
            policy,
            checks_address,
            ..
        } = self.settings;
        let grant = acquired.grant;
        let mut renewals = Renewals::new(
            (grant, limit),
            acquired.queue_lock,
            timing,
            acquired.sent,
            Liveness::NotRequired,
        );
        renewals.limit_silence(acquired.silence);
        let interval = address_check_interval(timing.ttl);
        let address = checks_address.then(|| AddressChecks::new(grant, interval, self.opened, now));
        let sessions = SessionTracker::new(grant.token, policy, acquired.earlier_sessions);
        let lease = KeptLease::new(acquired.has_entry, renewals, sessions, address);
        let is_old = checks_address && now.since(self.opened) >= interval;
        match mem::replace(&mut self.phase, Phase::Over) {
            Phase::Acquiring(acquire, _) if is_old => {
                let until = now + 2 * timing.request_timeout;
                self.phase = Phase::ConfirmingAddress(acquire, lease, until);
            }
            _ => self.begin(now, lease),
        }
    }

    /// Lets the work start, after the sessions of an earlier run have ended.
    pub(super) fn begin(&mut self, now: BootInstant, mut lease: KeptLease) {
        self.push(Notice::Granted(lease.renewals.grant()));
        if !lease.sessions.is_recorded() || !self.ends_sessions() {
            self.hold(lease);
            return;
        }
        lease.renewals.continue_without_command();
        let wait = SessionWait::new(
            EndingSessions::noted(
                NoteRequest {
                    owner_id: lease.renewals.grant().owner_id,
                    of_others: true,
                },
                now,
            ),
            SessionOwner::EarlierRun,
            self.settings.limits.wait.map(|wait| self.started + wait),
            now + 2 * self.settings.timing.request_timeout,
        );
        self.phase = Phase::EndingEarlier(lease, wait);
    }

    /// Lets the work start.
    pub(super) fn hold(&mut self, mut lease: KeptLease) {
        lease.renewals.continue_without_command();
        self.notices.push_back(Notice::Ready);
        self.phase = Phase::Held(lease);
    }

    pub(super) fn acquire_responded(&mut self, now: BootInstant, response: TimedResponse) {
        let Phase::Acquiring(acquire, unreported) = &mut self.phase else {
            return;
        };
        let before = acquire.silence().limit();
        let had_queue_lock = acquire.queue_lock();
        acquire.handle_response(now, &response);
        if acquire.queue_lock() == QueueLock::Unavailable && had_queue_lock == QueueLock::Available
        {
            self.notices.push_back(Notice::NoQueueLock);
        }
        *unreported = to_report(response);
        if let Some(limit) = acquire.silence().limit()
            && before != Some(limit)
        {
            self.notices.push_back(Notice::Silence(limit));
        }
    }

    /// Gives up the wait for the lease.
    pub(super) fn give_up_acquiring(&mut self, now: BootInstant) {
        self.leave(now, LEAVE_TIMEOUT);
    }

    /// Releases within `time` what may have been granted, and leaves the queue.
    fn leave(&mut self, now: BootInstant, time: Duration) {
        let (Phase::Acquiring(acquire, _) | Phase::ConfirmingAddress(acquire, ..)) = &self.phase
        else {
            return;
        };
        let Some(request) = acquire.release_request() else {
            self.phase = Phase::Over;
            return;
        };
        // A wait for the queue lock may take long, so it is interrupted immediately. Any other request gets half of the
        // time to finish.
        let response_by = match acquire.is_waiting_turn() {
            true => now,
            false => now + time / 2,
        };
        let limits = ReleaseLimits {
            interrupt_at: Some(response_by),
            ..ReleaseLimits::until(now + time)
        };
        self.phase = Phase::Releasing(Releasing::new(request, false, limits, now));
    }
}

/// Returns what to report about a response if the wait for the lease continues. None if there is nothing to report.
fn to_report(response: TimedResponse) -> Option<Unreported> {
    match response.outcome {
        Ok(Response::NotAcquired(..) | Response::Enqueued(..)) => Some(None),
        Ok(_) => None,
        Err(failure) => Some(Some(failure)),
    }
}
