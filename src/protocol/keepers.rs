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
            let known = self.notices.len();
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
            // A notice may have changed the other leases.
            if self.notices.len() == known {
                return match waits.is_empty() {
                    true => (0, Step::Over),
                    false => (0, Step::Wait(waits.into_iter().flatten().min())),
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
                        self.ready(now, lease);
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
                    self.start_work(now, lease);
                }
            }
        }
    }

    /// Begins to acquire the next lease. Starts the work if there is none.
    fn ready(&mut self, now: BootInstant, lease: usize) {
        match self.each.len() == self.owner_ids.len() {
            true => self.start_work(now, lease),
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

    /// Starts the work if all leases are held, and none of them has to be renewed first.
    fn start_work(&mut self, now: BootInstant, lease: usize) {
        let has_all = self.each.len() == self.owner_ids.len();
        let is_held = |keeper: &Keeper| keeper.phase() == PhaseKind::Held;
        let is_fresh = self.deadline().is_some_and(|deadline| now < deadline.term);
        if !has_all || !self.each.iter().all(is_held) || !is_fresh {
            return;
        }
        self.has_work = true;
        for keeper in &mut self.each {
            keeper.handle(now, Input::WorkStarted);
        }
        self.notices.push_back((lease, Notice::Ready));
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
