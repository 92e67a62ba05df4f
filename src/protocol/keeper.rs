//! The keeper: the whole life of one lease as one state machine. Pure, without a clock, I/O or texts.
//!
//! The caller passes each event to [`Keeper::handle`], then calls [`Keeper::poll`] and carries out each step until the
//! keeper waits, and reports every [`Notice`]. At most one request is in flight. `exec` and the protocol model run the
//! same keeper, so the model checks the order of the phases too:
//!
//! ```text
//! Acquiring ─▶ EndingEarlier ─▶ Held ─▶ EndingOwn ─▶ Releasing ─▶ Over
//! ```
//! The keeper skips a phase in which it has no task. A contender that gives up goes to Releasing.
//!
//! - `acquiring`: the phases before the work starts; `ending`: the end of sessions, and the release
//! - `lease`: the renewals, the sessions of the work and the checks of the address, from the grant to the release
//! - `session_wait`: the wait until the sessions of a command have ended
//! - `work_end`: what the caller says about the end of the work; `notice`: what the caller reports

mod acquiring;
mod ending;
mod lease;
mod notice;
mod session_wait;
pub mod transitions;
mod work_end;

use std::collections::VecDeque;
use std::time::Duration;

use self::lease::KeptLease;
pub use self::notice::{Notice, SessionOwner, SessionsNotEnded};
pub use self::session_wait::SessionWait;
use self::session_wait::SessionWaitStep;
pub use self::transitions::PhaseKind;
use self::transitions::is_allowed;
pub use self::work_end::{LeftSessions, ReleaseEffort, WorkEnd};
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId};
use crate::mutant::{self, Safeguard};
use crate::protocol::acquire::{Acquire, WaitLimits};
use crate::protocol::address::ExpectedRecord;
use crate::protocol::release::Releasing;
use crate::protocol::renew::{Liveness, Renewals};
use crate::protocol::session_end::EndingSessions;
use crate::protocol::sessions::SessionTracker;
use crate::store::session::{CommandConnections, SessionPolicy};
use crate::store::{
    EarlierSessions, Failure, LockRecord, Loss, NoteRequest, Request, TimedResponse,
};

/// The settings of a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeeperSettings {
    /// The durations of the lease.
    pub timing: Timing,
    /// The limit of the lease.
    pub limit: Limit,
    /// The time limits of the wait for the lease, and for the end of the sessions of an earlier run.
    pub limits: WaitLimits,
    /// The policy for sessions that the work leaves on the server.
    pub policy: SessionPolicy,
    /// Whether the lease is renewed only after heartbeats of the work.
    pub liveness: Liveness,
    /// True if the keeper checks that the address still leads to the server of the connection.
    pub checks_address: bool,
}

/// An event for a keeper.
#[derive(Debug)]
pub enum Input<'a> {
    /// The response to the request in flight.
    Response(Box<TimedResponse>),
    /// A read of the record and the queue on another connection has ended.
    QueueRead(&'a TimedResponse),
    /// The read that [`Step::ReadAddress`] requested has ended. None if it failed, or if the server is read-only.
    AddressRead(Option<&'a LockRecord>),
    /// A connection was opened.
    Connected,
    /// The server closed the connection.
    Disconnected,
    /// The present connections of the work to the server.
    Connections(CommandConnections),
    /// The work has started. Until then, the keeper renews the lease as for a waiting process, and the caller may give up.
    WorkStarted,
    /// The work is alive.
    Heartbeat,
    /// The work has ended, and all its processes are dead.
    WorkEnded(WorkEnd),
    /// The caller does not want the lease any more. Has no effect while the work runs.
    GiveUp,
}

/// The next step for the caller.
#[derive(Debug)]
pub enum Step {
    /// Send this request, then pass exactly one response to [`Keeper::handle`].
    Send(Request),
    /// End the request in flight, so that its response arrives soon.
    Interrupt,
    /// Close the connection. The next request opens one.
    Reconnect,
    /// Read the record over a new connection. If the address has not moved, the record contains this.
    ReadAddress(ExpectedRecord),
    /// Do nothing before this instant, unless an event arrives earlier. None waits for an event.
    Wait(Option<BootInstant>),
    /// The life of the lease is over.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Acquiring(Box<Acquire>, Option<Unreported>),
    /// The lease is granted over a connection that was opened long ago. The keeper reads the record over a new connection,
    /// until this instant, because the address may lead to another server now.
    ConfirmingAddress(Box<Acquire>, KeptLease, BootInstant),
    EndingEarlier(KeptLease, SessionWait),
    Held(KeptLease),
    EndingOwn(KeptLease, SessionWait, WorkEnd),
    Releasing(Releasing),
    Over,
}

/// A response during the wait for the lease, to report if the wait continues. Contains the failure if there was one.
type Unreported = Option<Failure>;

/// The machine that has sent the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    Acquire,
    Renewals,
    Sessions,
    Release,
}

/// The life of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Keeper {
    settings: KeeperSettings,
    /// Instant from which the limits of the wait are measured.
    started: BootInstant,
    /// Instant at which the connection was opened.
    opened: BootInstant,
    phase: Phase,
    in_flight: Option<Sender>,
    must_reconnect: bool,
    notices: VecDeque<Notice>,
}

impl Keeper {
    /// Creates the keeper of a contender that starts to wait at `now`.
    #[must_use]
    pub fn new(owner_id: OwnerId, settings: KeeperSettings, now: BootInstant) -> Self {
        let acquire = Acquire::new(
            owner_id,
            settings.timing,
            settings.limit,
            settings.limits,
            now,
        );
        Self {
            settings,
            started: now,
            opened: now,
            phase: Phase::Acquiring(Box::new(acquire), None),
            in_flight: None,
            must_reconnect: false,
            notices: VecDeque::new(),
        }
    }

    /// Creates the keeper of a lease whose dlock has died. All processes of the work are dead. The lease is not renewed, so
    /// the keeper has only the time until `deadline.kill` to end the sessions of the work and to release the lease. If that
    /// is too short, the lease expires, and the next holder ends the sessions.
    #[must_use]
    pub fn abandoned(
        grant: Grant,
        settings: KeeperSettings,
        deadline: Deadline,
        end: WorkEnd,
        now: BootInstant,
    ) -> Self {
        let mut keeper = Self {
            phase: Phase::Over,
            ..Self::new(grant.owner_id, settings, now)
        };
        let renewals = Renewals::stopped(grant, settings.timing, deadline);
        let sessions = SessionTracker::new(grant.token, settings.policy, EarlierSessions::Noted);
        let has_entry = true;
        let lease = KeptLease::new(has_entry, renewals, sessions, None);
        match keeper.ends_sessions() {
            true => {
                let request = NoteRequest {
                    owner_id: grant.owner_id,
                    of_others: false,
                };
                let ending = EndingSessions::noted(request, now);
                let wait = SessionWait::new(ending, SessionOwner::OwnWork, None, now);
                keeper.phase = Phase::EndingOwn(lease, wait, end);
            }
            false => keeper.release(now, &lease, end, false),
        }
        keeper
    }

    /// Returns the next notice. None if there is none.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Returns the next step at `now`.
    pub fn poll(&mut self, now: BootInstant) -> Step {
        if std::mem::take(&mut self.must_reconnect) {
            return Step::Reconnect;
        }
        loop {
            let before = self.phase();
            let step = match before {
                PhaseKind::Acquiring => self.poll_acquiring(now),
                PhaseKind::EndingEarlier | PhaseKind::EndingOwn => self.poll_sessions(now),
                PhaseKind::Held => self.poll_held(now),
                PhaseKind::Releasing => self.poll_releasing(now),
                PhaseKind::Over => Some(Step::Over),
            };
            debug_assert!(is_allowed(before, self.phase()));
            if let Some(step) = step {
                return self.with_address_check(now, step);
            }
        }
    }

    /// Handles an event at `now`.
    pub fn handle(&mut self, now: BootInstant, input: Input<'_>) {
        let before = self.phase();
        match input {
            Input::Response(response) => self.handle_response(now, *response),
            Input::QueueRead(response) => {
                if let Phase::Acquiring(acquire, _) = &mut self.phase {
                    acquire.handle_read(response);
                }
            }
            Input::AddressRead(record) => self.handle_address_read(now, record),
            Input::Connected => {
                self.opened = now;
                if let Some(address) = self.lease_mut().and_then(|lease| lease.address.as_mut()) {
                    address.reconnected(now);
                }
            }
            Input::Disconnected => self.disconnected(now),
            Input::Connections(connections) => {
                if let Phase::Held(lease) = &mut self.phase {
                    lease.sessions.update(connections);
                }
            }
            Input::WorkStarted => {
                if let Phase::Held(lease) = &mut self.phase {
                    lease.renewals.start_command(self.settings.liveness);
                }
            }
            Input::Heartbeat => {
                if let Phase::Held(lease) = &mut self.phase {
                    lease.renewals.record_heartbeat();
                }
            }
            Input::WorkEnded(end) => self.work_ended(now, end),
            Input::GiveUp => self.give_up(now),
        }
        debug_assert!(is_allowed(before, self.phase()));
    }

    fn ends_sessions(&self) -> bool {
        self.settings.policy != SessionPolicy::Ignore
            && !mutant::is_disabled(Safeguard::EndedSessions)
    }

    fn poll_held(&mut self, now: BootInstant) -> Option<Step> {
        let is_open = self.in_flight.is_some();
        let Phase::Held(lease) = &mut self.phase else {
            return None;
        };
        let request = match is_open {
            true => None,
            false => lease.renewal(now),
        };
        Some(match request {
            Some(request) => self.send(Sender::Renewals, Request::Renew(request)),
            None => Step::Wait(lease.renewals.wake_at()),
        })
    }

    /// Returns a read of the address if one is due and the keeper would wait, or else `step`, which ends when the next
    /// read is due.
    fn with_address_check(&mut self, now: BootInstant, step: Step) -> Step {
        let (Step::Wait(until), Some(lease)) = (&step, self.lease_mut()) else {
            return step;
        };
        let Some(address) = &mut lease.address else {
            return step;
        };
        match address.due(now) {
            Some(expected) => Step::ReadAddress(expected),
            None => Step::Wait(Some(
                until.map_or(address.next_at(), |at| at.min(address.next_at())),
            )),
        }
    }

    fn push(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    fn send(&mut self, sender: Sender, request: Request) -> Step {
        self.in_flight = Some(sender);
        Step::Send(request)
    }

    fn handle_response(&mut self, now: BootInstant, response: TimedResponse) {
        let Some(sender) = self.in_flight.take() else {
            return;
        };
        let is_running = matches!(self.phase, Phase::Held(_));
        match (sender, &mut self.phase) {
            (Sender::Acquire, Phase::Acquiring(..)) => self.acquire_responded(now, response),
            (Sender::Renewals, Phase::Held(lease)) => {
                let notice = lease.handle_response(now, response, is_running);
                self.notices.push_back(notice);
            }
            (
                Sender::Renewals,
                Phase::EndingEarlier(lease, wait) | Phase::EndingOwn(lease, wait, _),
            ) => {
                let notice = lease.handle_response(now, response, is_running);
                wait.handle_renewal(&notice);
                match (notice, wait.owner()) {
                    (Notice::Lost(_, record), SessionOwner::EarlierRun) => {
                        self.sessions_not_ended(now, SessionsNotEnded::Lost(record));
                    }
                    // The work is dead, so there is nothing to stop. The release finds the loss again.
                    (Notice::Lost(..), SessionOwner::OwnWork) => {}
                    (notice, _) => self.notices.push_back(notice),
                }
            }
            (
                Sender::Sessions,
                Phase::EndingEarlier(lease, wait) | Phase::EndingOwn(lease, wait, _),
            ) => {
                if let Some(record) = lease.taken_over(&response) {
                    // The sessions in the record are those of another holder's command.
                    return self.sessions_not_ended(now, SessionsNotEnded::Lost(record));
                }
                wait.handle_response(now, response, &mut lease.renewals);
                if !wait.sessions().is_single_look() {
                    self.notices.push_back(Notice::SessionsLeft);
                }
            }
            (Sender::Release, Phase::Releasing(release)) => release.handle_response(now, &response),
            // The request belongs to an earlier phase.
            _ => {}
        }
    }

    fn handle_address_read(&mut self, now: BootInstant, record: Option<&LockRecord>) {
        let is_open = self.in_flight.is_some();
        let own = self
            .lease_mut()
            .map(|lease| lease.renewals.grant().owner_id);
        let has_moved = (self.lease_mut()).is_some_and(|lease| lease.has_moved(now, record));
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::ConfirmingAddress(mut acquire, _, _) if has_moved => {
                // The lease on the other server expires. This contender tries again on the server of its address.
                acquire.address_moved();
                self.phase = Phase::Acquiring(acquire, None);
            }
            Phase::ConfirmingAddress(_, lease, _) => self.begin(now, lease),
            phase => self.phase = phase,
        }
        if !has_moved {
            return;
        }
        if let Phase::EndingEarlier(_, wait) | Phase::EndingOwn(_, wait, _) = &mut self.phase {
            wait.require_renewal(is_open);
        }
        self.must_reconnect = true;
        let is_revoked = record.is_some_and(|record| {
            let own = own.and_then(|own| record.own_lease(own));
            own.unwrap_or(&record.lease).revoked_ago.is_some()
        });
        self.notices.push_back(Notice::Moved { is_revoked });
    }

    fn disconnected(&mut self, now: BootInstant) {
        let is_open = self.in_flight.is_some();
        match &mut self.phase {
            Phase::Acquiring(acquire, _) => acquire.disconnected(),
            Phase::Releasing(release) => release.disconnected(now),
            Phase::EndingEarlier(_, wait) | Phase::EndingOwn(_, wait, _) => {
                wait.require_renewal(is_open);
            }
            Phase::Held(_) => self.notices.push_back(Notice::Disconnected),
            Phase::ConfirmingAddress(..) | Phase::Over => {}
        }
        if let Some(limit) = self.lease_mut().and_then(|lease| lease.disconnected(now)) {
            self.notices.push_back(Notice::Silence(limit));
        }
    }

    fn give_up(&mut self, now: BootInstant) {
        match &mut self.phase {
            Phase::Acquiring(..) | Phase::ConfirmingAddress(..) => self.give_up_acquiring(now),
            Phase::EndingEarlier(..) | Phase::EndingOwn(..) => {
                self.sessions_not_ended(now, SessionsNotEnded::GivenUp);
            }
            Phase::Held(lease) if !lease.renewals.has_command() => self.release_unused(now),
            Phase::Releasing(release) => release.give_up(now),
            Phase::Held(_) | Phase::Over => {}
        }
    }

    /// Returns the instant from which the wait for the lease is measured.
    #[must_use]
    pub const fn started(&self) -> BootInstant {
        self.started
    }

    /// Returns the present phase.
    #[must_use]
    pub const fn phase(&self) -> PhaseKind {
        match self.phase {
            Phase::Acquiring(..) | Phase::ConfirmingAddress(..) => PhaseKind::Acquiring,
            Phase::EndingEarlier(..) => PhaseKind::EndingEarlier,
            Phase::Held(_) => PhaseKind::Held,
            Phase::EndingOwn(..) => PhaseKind::EndingOwn,
            Phase::Releasing(_) => PhaseKind::Releasing,
            Phase::Over => PhaseKind::Over,
        }
    }

    /// Returns the wait for the lease. None after it has ended.
    #[must_use]
    pub const fn acquire(&self) -> Option<&Acquire> {
        match &self.phase {
            Phase::Acquiring(acquire, _) => Some(acquire),
            _ => None,
        }
    }

    /// Returns the wait until the sessions of a command have ended. None if there is none.
    #[must_use]
    pub const fn session_wait(&self) -> Option<&SessionWait> {
        match &self.phase {
            Phase::EndingEarlier(_, wait) | Phase::EndingOwn(_, wait, _) => Some(wait),
            _ => None,
        }
    }

    const fn lease(&self) -> Option<&KeptLease> {
        match &self.phase {
            Phase::ConfirmingAddress(_, lease, _)
            | Phase::EndingEarlier(lease, _)
            | Phase::Held(lease)
            | Phase::EndingOwn(lease, ..) => Some(lease),
            Phase::Acquiring(..) | Phase::Releasing(_) | Phase::Over => None,
        }
    }

    const fn lease_mut(&mut self) -> Option<&mut KeptLease> {
        match &mut self.phase {
            Phase::ConfirmingAddress(_, lease, _)
            | Phase::EndingEarlier(lease, _)
            | Phase::Held(lease)
            | Phase::EndingOwn(lease, ..) => Some(lease),
            Phase::Acquiring(..) | Phase::Releasing(_) | Phase::Over => None,
        }
    }

    /// Returns the grant of the lease. None before the grant and from the release on.
    #[must_use]
    pub fn grant(&self) -> Option<Grant> {
        self.lease().map(|lease| lease.renewals.grant())
    }

    /// Returns the release. None before it begins, and after it has ended.
    #[must_use]
    pub const fn releasing(&self) -> Option<&Releasing> {
        match &self.phase {
            Phase::Releasing(releasing) => Some(releasing),
            _ => None,
        }
    }

    /// Returns the instants at which the work is stopped and killed unless the lease is renewed. None before the grant and
    /// from the release on.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.lease().map(|lease| lease.renewals.deadline())
    }

    /// Returns how the lease was lost. None if no response has reported a loss.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lease().and_then(|lease| lease.loss)
    }

    /// Returns the failure of the latest renewal. None if no renewal has failed since the latest success.
    #[must_use]
    pub fn renewal_failure(&self) -> Option<&Failure> {
        self.lease().and_then(|lease| lease.failure.as_ref())
    }

    /// Returns true if a missing heartbeat prevents the next renewal.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.lease().is_some_and(|lease| lease.renewals.is_silent())
    }

    /// Returns true if a request is in flight.
    #[must_use]
    pub const fn has_open_request(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Removes history that does not affect the behaviour from `now` on. The protocol model calls this method to
    /// recognise a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        self.opened = self.started;
        match &mut self.phase {
            Phase::Acquiring(acquire, _) | Phase::ConfirmingAddress(acquire, ..) => {
                acquire.normalize_for_model(now);
            }
            Phase::EndingEarlier(_, wait) | Phase::EndingOwn(_, wait, _) => {
                wait.normalize_for_model(now);
            }
            Phase::Releasing(release) => release.normalize_for_model(now),
            Phase::Held(_) | Phase::Over => {}
        }
        if let Some(lease) = self.lease_mut() {
            lease.normalize_for_model(now);
        }
        if self.settings.limits.wait.is_none() {
            self.started = BootInstant::new(Duration::ZERO);
            self.opened = self.started;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
