//! What a look at the row and the line means: stand at the gate, watch the row as the head, or poll
//! it where there is no gate.

use std::time::Duration;

use super::pause::{LONGEST_PAUSE, MOMENT};
use super::takeover::{Watch, takeable};
use super::{Acquire, Aim};
use crate::lease::instant::BootInstant;
use crate::store::{ALLOWANCE, GATE_ALLOWANCE, Gate, Keeper, POLLER_LIFE, Sighting, View};

/// Longest pause of those behind, who only have to notice that they moved up.
const LONGEST_PAUSE_BEHIND: Duration = Duration::from_secs(3);

/// How often in a row a row that looks free is attempted without a pause in between.
const EAGER_ATTEMPTS: u32 = 3;

/// How often in a row the gate may look broken before it counts as broken. A session that is
/// granted the lease by its first packet has the gate for a moment before anything else tells so.
const DOUBTS: u32 = 3;

/// Without a gate, how long a row may lie free before others than the first in line attempt it:
/// the first may be dead without anybody being able to see it.
const PRIVILEGE: Duration = Duration::from_secs(3);

impl Acquire {
    /// Takes in what a reply showed of the row and the line, and aims at what to ask next.
    pub(super) fn saw(
        &mut self,
        now: BootInstant,
        received: BootInstant,
        sighting: &Sighting,
        view: &View,
    ) {
        self.seen = Some(sighting.clone());
        self.looked_at = received;
        self.ahead = view.ahead;
        self.first_for = view.first_for.unwrap_or_default();
        let watch = self.watch(received, sighting);
        match (self.gate, view.keeper) {
            (Gate::Used, Keeper::Line) => {
                self.doubts = 0;
                self.aim = Aim::Stand;
            }
            // The gate came free between two packets, and we have a place: ask for it.
            (Gate::Used, Keeper::Nobody) if self.aim == Aim::Queue => self.aim = Aim::Stand,
            (Gate::Used, Keeper::Us) => {
                (self.doubts, self.turned_away) = (0, 0);
                self.lead(now, received, sighting, watch);
            }
            (Gate::Used, Keeper::Nobody | Keeper::Stranger | Keeper::Unasked) => {
                self.doubts += 1;
                self.aim = Aim::Attempt(None);
                self.undecided = true;
                if self.doubts > DOUBTS {
                    self.poll_from_now_on();
                } else {
                    self.next_at = now + MOMENT;
                }
            }
            (Gate::Absent, _) => self.poll(now, received, sighting, watch),
        }
    }

    /// After a wait at the gate that ended without it: tries again, but not for ever.
    pub(super) fn turned_away(&mut self, now: BootInstant) {
        self.aim = Aim::Attempt(None);
        self.turned_away += 1;
        if self.turned_away > DOUBTS {
            self.poll_from_now_on();
        } else {
            self.next_at = now + MOMENT;
        }
    }

    /// Gives the gate up for good: what does not work once will not be worth another try.
    pub(super) fn poll_from_now_on(&mut self) {
        self.gate = Gate::Absent;
        // Our place has to say so, or nobody knows that we are alive.
        self.placed = None;
    }

    /// As the head, who has the gate: watches the row and takes it as soon as that is allowed.
    fn lead(&mut self, now: BootInstant, received: BootInstant, seen: &Sighting, watch: Watch) {
        let allowance = match seen.gated_here {
            true => GATE_ALLOWANCE,
            false => ALLOWANCE,
        };
        let takeable = takeable(received, seen, watch, allowance);
        if self.attempt_if(now, takeable, seen, watch) {
            return;
        }
        self.aim = match self.placed {
            Some(_) => Aim::Look,
            None => Aim::Queue,
        };
        if self.placed.is_some() {
            // A row that looks free and is refused to who has the gate is behind its fence, for as
            // long as a transaction takes: no reason for haste.
            let takeable = match takeable <= now {
                true => now + LONGEST_PAUSE,
                false => takeable,
            };
            self.pause_until(now, takeable, LONGEST_PAUSE);
        }
    }

    /// Without a gate: watches the row, and attempts it when it is our turn.
    fn poll(&mut self, now: BootInstant, received: BootInstant, seen: &Sighting, watch: Watch) {
        let takeable = takeable(received, seen, watch, ALLOWANCE);
        self.lying_free = match self.lying_free {
            _ if takeable > now => None,
            None => Some(now),
            since => since,
        };
        let left_lying = |since| now.since(since) >= PRIVILEGE;
        let ours_to_try = self.ahead == 0 || self.lying_free.is_some_and(left_lying);
        if ours_to_try && self.attempt_if(now, takeable, seen, watch) {
            return;
        }
        let fresh = self
            .placed
            .is_some_and(|placed| now.since(placed) < POLLER_LIFE / 3);
        self.aim = match fresh {
            true => Aim::Look,
            false => Aim::Queue,
        };
        if self.placed.is_some() {
            match self.ahead {
                0 => self.pause_until(now, takeable, LONGEST_PAUSE),
                _ => self.pause_until(now, now + LONGEST_PAUSE_BEHIND, LONGEST_PAUSE_BEHIND),
            }
        }
    }

    /// Aims at an attempt if the row may be taken by now; without a pause, but not without end.
    fn attempt_if(
        &mut self,
        now: BootInstant,
        takeable: BootInstant,
        seen: &Sighting,
        watch: Watch,
    ) -> bool {
        if takeable > now || self.eager >= EAGER_ATTEMPTS {
            self.eager = 0;
            return false;
        }
        self.eager += 1;
        self.undecided = true;
        let ripe = seen.claim.is_some() && now >= watch.ripe();
        self.aim = Aim::Attempt(ripe.then_some(seen.version));
        true
    }
}
