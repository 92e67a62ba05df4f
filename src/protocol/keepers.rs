//! The leases of one run as one state machine: a [`Keeper`] for each lock. Pure, without a clock, I/O or texts.
//!
//! The leases are acquired one after the other, in the order in which all processes acquire them. Each lease is renewed
//! while the next one is awaited. So a process waits only for locks that come after all that it holds, and no two processes
//! wait for each other. The work starts when all leases are held. If one of them cannot be acquired, or is lost before the
//! work starts, the others are given up. The model in `tests/model/several.rs` runs this machine.

use std::collections::VecDeque;

use super::keeper::{Input, Keeper, KeeperSettings, Notice, PhaseKind, SessionOwner, Step};
use crate::lease::OwnerId;
use crate::lease::instant::{BootInstant, Deadline};

/// The leases of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Keepers {
    settings: KeeperSettings,
    /// The owner id of each lease, in the order in which the leases are acquired.
    owner_ids: Vec<OwnerId>,
    /// The keepers of the leases that were granted or are awaited.
    each: Vec<Keeper>,
    /// Instant of the server's first response. None before it.
    first_response: Option<BootInstant>,
    /// Instant until which the start of the work waits for the renewal of a lease that has nearly ended. None if all leases
    /// are not held yet.
    fresh_by: Option<BootInstant>,
    has_work: bool,
    /// Each notice with the number of its lease.
    notices: VecDeque<(usize, Notice)>,
}

impl Keepers {
    /// Creates the keepers of a process that starts to wait for the first lease at `now`.
    #[must_use]
    pub fn new(owner_ids: Vec<OwnerId>, settings: KeeperSettings, now: BootInstant) -> Self {
        let mut keepers = Self {
            settings,
            owner_ids,
            each: Vec::new(),
            first_response: None,
            fresh_by: None,
            has_work: false,
            notices: VecDeque::new(),
        };
        keepers.begin_next(now);
        keepers
    }

    /// Returns the keepers of the leases that were granted or are awaited.
    #[must_use]
    pub fn each(&self) -> &[Keeper] {
        &self.each
    }

    /// Returns the next notice, and the number of its lease. None if there is none. [`Notice::Ready`] means that all leases
    /// are held, and that the work starts now.
    pub fn notice(&mut self) -> Option<(usize, Notice)> {
        self.notices.pop_front()
    }

    /// Returns the next step at `now`, and the number of its lease. A step to wait or to end is about all leases.
    pub fn poll(&mut self, now: BootInstant) -> (usize, Step) {
        loop {
            let known = (self.notices.len(), self.each.len());
            let mut waits = Vec::new();
            // The releases are sent in the reverse order.
            for lease in (0..self.each.len()).rev() {
                let step = self.each[lease].poll(now);
                self.collect(now);
                match step {
                    Step::Over => {}
                    Step::Wait(until) => waits.push(until),
                    step => return (lease, step),
                }
            }
            if (self.fresh_by).is_some_and(|fresh_by| now >= fresh_by) && !self.has_work {
                self.start_work(now);
            }
            // A notice may have changed the other leases, or begun the next one.
            if (self.notices.len(), self.each.len()) == known {
                // One lease may wait for an event since an earlier instant, for example for a heartbeat.
                let fresh_by = self.fresh_by.filter(|_| !self.has_work);
                let instants = waits.iter().copied().chain([fresh_by]).flatten();
                let until = instants.filter(|at| *at > now).min();
                return match waits.is_empty() {
                    true => (0, Step::Over),
                    false => (0, Step::Wait(until)),
                };
            }
        }
    }

    /// Handles an event of the lease with the number `lease` at `now`.
    pub fn handle(&mut self, now: BootInstant, lease: usize, input: Input<'_>) {
        if matches!(&input, Input::Response(response) if response.outcome.is_ok()) {
            self.first_response.get_or_insert(now);
        }
        self.each[lease].handle(now, input);
        self.collect(now);
    }

    /// Handles an event of the process at `now`.
    pub fn handle_all(&mut self, now: BootInstant, input: impl Fn() -> Input<'static>) {
        for keeper in self.each.iter_mut().rev() {
            keeper.handle(now, input());
        }
        self.collect(now);
    }

    /// Returns the earliest deadline of the leases. None if none is held.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let deadlines = self.each.iter().map(Keeper::deadline);
        deadlines.flatten().min()
    }

    /// Returns the instant from which the wait for the first lease is measured.
    #[must_use]
    pub fn started(&self) -> BootInstant {
        self.each[0].started()
    }

    /// Takes the notices of the keepers, and carries out what follows from them for the other leases.
    fn collect(&mut self, now: BootInstant) {
        for lease in 0..self.each.len() {
            while let Some(notice) = self.each[lease].notice() {
                match &notice {
                    Notice::Ready => {
                        self.ready(now);
                        continue;
                    }
                    Notice::NotGranted(_)
                    | Notice::SessionsNotEnded {
                        owner: SessionOwner::EarlierRun,
                        ..
                    } => self.give_up_except(now, Some(lease)),
                    Notice::Lost(..) if !self.has_work => self.give_up_except(now, None),
                    _ => {}
                }
                let is_renewed = matches!(notice, Notice::Renewed { .. });
                self.notices.push_back((lease, notice));
                if is_renewed && !self.has_work {
                    self.start_work(now);
                }
            }
        }
    }

    /// Begins to acquire the next lease. Starts the work if there is none.
    fn ready(&mut self, now: BootInstant) {
        match self.each.len() == self.owner_ids.len() {
            true => self.start_work(now),
            false => self.begin_next(now),
        }
    }

    fn begin_next(&mut self, now: BootInstant) {
        let waited = self.first_response.map(|at| now.since(at));
        let settings = KeeperSettings {
            limits: self.settings.limits.after(waited.unwrap_or_default()),
            ..self.settings
        };
        let owner_id = self.owner_ids[self.each.len()];
        self.each.push(Keeper::new(owner_id, settings, now));
    }

    /// Starts the work if all leases are held. If one of them has nearly ended, first waits a short time for its renewal.
    /// After that time, the monitor refuses to start the work.
    fn start_work(&mut self, now: BootInstant) {
        let has_all = self.each.len() == self.owner_ids.len();
        let is_held = |keeper: &Keeper| keeper.phase() == PhaseKind::Held;
        if !has_all || !self.each.iter().all(is_held) {
            return;
        }
        let patience = 2 * self.settings.timing.request_timeout;
        let fresh_by = *self.fresh_by.get_or_insert(now + patience);
        let is_fresh = self.deadline().is_some_and(|deadline| now < deadline.term);
        if !is_fresh && now < fresh_by {
            return;
        }
        self.has_work = true;
        for keeper in &mut self.each {
            keeper.handle(now, Input::WorkStarted);
        }
        self.notices.push_back((self.each.len() - 1, Notice::Ready));
    }

    /// Gives up all leases except the one with the number `except`, whose keeper has ended its wait.
    fn give_up_except(&mut self, now: BootInstant, except: Option<usize>) {
        for (lease, keeper) in self.each.iter_mut().enumerate().rev() {
            if except != Some(lease) {
                keeper.handle(now, Input::GiveUp);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Input, Keepers, Notice, Step};
    use crate::lease::instant::BootInstant;
    use crate::lease::{OwnerId, Token};
    use crate::protocol::keeper::tests::address::settings;
    use crate::store::{EarlierSessions, Failure, FailureKind, Request, Response, TimedResponse};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn respond(keepers: &mut Keepers, now: BootInstant, lease: usize, response: Option<Response>) {
        let failure = Failure::new(FailureKind::Unreachable, "no response");
        let response = TimedResponse {
            sent: now,
            received: now,
            server_time: None,
            could_grant: true,
            could_release: false,
            outcome: response.ok_or(failure),
        };
        keepers.handle(now, lease, Input::Response(Box::new(response)));
    }

    const GRANTED: Response = Response::Granted(Token(5), 1, EarlierSessions::None);

    /// Returns two leases of 30 s, and an instant 25 s after the first one was granted. Since then the server has responded
    /// only once, with the second grant, and the renewal of the first lease is in flight.
    fn first_has_nearly_ended() -> (Keepers, BootInstant) {
        let owner_ids = [1, 2].map(|byte| OwnerId::new([byte; 16])).to_vec();
        let mut keepers = Keepers::new(owner_ids, settings(false), START);
        assert!(matches!(
            keepers.poll(START),
            (0, Step::Send(Request::TryAcquire(_)))
        ));
        respond(&mut keepers, START, 0, Some(GRANTED));
        assert!(matches!(
            keepers.poll(START),
            (1, Step::Send(Request::TryAcquire(_)))
        ));
        let now = START + Duration::from_secs(25);
        assert!(matches!(
            keepers.poll(now),
            (0, Step::Send(Request::Renew(_)))
        ));
        respond(&mut keepers, now, 1, Some(GRANTED));
        assert!(matches!(keepers.poll(now), (0, Step::Wait(_))));
        (keepers, now)
    }

    fn is_ready(keepers: &mut Keepers) -> bool {
        std::iter::from_fn(|| keepers.notice()).any(|(_, notice)| notice == Notice::Ready)
    }

    #[test]
    fn work_starts_after_the_renewal_of_a_lease_that_has_nearly_ended() {
        let (mut keepers, now) = first_has_nearly_ended();
        assert!(!is_ready(&mut keepers));
        respond(&mut keepers, now, 0, Some(Response::Renewed(None)));
        assert!(is_ready(&mut keepers));
        let deadline = keepers.deadline().expect("both leases are held");
        assert_eq!(deadline.term, now + Duration::from_secs(24));
    }

    #[test]
    fn a_renewal_without_a_response_delays_the_work_for_a_limited_time() {
        let (mut keepers, now) = first_has_nearly_ended();
        respond(&mut keepers, now, 0, None);
        let (_, Step::Wait(Some(until))) = keepers.poll(now) else {
            panic!("no limit");
        };
        assert!(until <= now + Duration::from_secs(5), "{until:?}");
        assert!(!is_ready(&mut keepers));
        let late = now + Duration::from_secs(20);
        // The renewals of both leases are tried again.
        while let (_, Step::Send(Request::Renew(_))) = keepers.poll(late) {}
        // The monitor refuses to start the work after its deadline.
        assert!(is_ready(&mut keepers));
        assert!(
            keepers
                .deadline()
                .is_some_and(|deadline| deadline.term < late)
        );
    }
}
