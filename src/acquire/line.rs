//! What a look at the row and the line means: stand at the gate, watch the row as the head, or poll
//! it where there is no gate.

use std::time::Duration;

use super::pace::{LONGEST_PAUSE, MOMENT};
use super::{Acquire, OwnPlace, Phase, Seen};
use crate::lease::instant::BootInstant;
use crate::store::takeover::{HolderSession, Observation, allowed_at};
use crate::store::{Gate, Keeper, Mode, POLLER_LIFE, Sighting, View};
use crate::twin::{self, Mechanism};

/// Longest pause of those behind, who only have to notice that they moved up.
const LONGEST_PAUSE_BEHIND: Duration = Duration::from_secs(3);

/// How often in a row a row that may be taken is tried without a pause in between.
const MAX_TRIES: u32 = 3;

/// How often in a row the gate may look broken before it counts as broken. A session that is
/// granted the lease by its first packet has the gate for a moment before anything else tells so.
const MAX_ANOMALIES: u32 = 3;

/// Without a gate, how long a row may lie free before others than the first in line try it: the
/// first may be dead without anybody being able to see it.
const PRIVILEGE: Duration = Duration::from_secs(3);

impl Acquire {
    /// Takes in what a reply showed of the row and the line, and decides what to ask next.
    pub(super) fn saw(
        &mut self,
        now: BootInstant,
        received: BootInstant,
        row: &Sighting,
        view: &View,
    ) {
        let stood = self.phase == Phase::Stand;
        let queued = self.phase == Phase::Queue;
        self.seen = Some(Seen {
            row: row.clone(),
            at: received,
            ahead: view.ahead,
            first_for: view.first_for.unwrap_or_default(),
        });
        let observation = Observation::next(self.observation, received, row);
        self.observation = Some(observation);
        let session = match (self.gate, view.keeper) {
            (Gate::Used, Keeper::Us) => HolderSession::LostQueueLock,
            _ => HolderSession::Unknown,
        };
        let allowed_at = allowed_at(received, row, &observation, session);
        if twin::is_out(Mechanism::OwnClock) && self.try_if(now, allowed_at, row) {
            return;
        }
        match (self.gate, view.keeper) {
            // The server said that the gate is ours. If it is not, it only pretends.
            (Gate::Used, keeper) if stood && keeper != Keeper::Us => self.turned_away(now),
            (Gate::Used, Keeper::Line) => {
                self.anomalies = 0;
                self.phase = Phase::Stand;
            }
            // The gate came free between two packets, and we have a place: ask for it.
            (Gate::Used, Keeper::Nobody) if queued => self.phase = Phase::Stand,
            (Gate::Used, Keeper::Us) | (Gate::Absent, _) => {
                (self.anomalies, self.turned_away) = (0, 0);
                self.watch(now, allowed_at, row, view.ahead);
            }
            (Gate::Used, keeper @ (Keeper::Nobody | Keeper::Stranger | Keeper::Unasked)) => {
                self.anomalies += 1;
                let may_pass = keeper == Keeper::Stranger && self.stranger_limit().is_some();
                match may_pass && self.anomalies > MAX_ANOMALIES {
                    true => self.phase = Phase::Stand,
                    false => self.doubt_gate(now, self.anomalies),
                }
            }
        }
    }

    /// Takes in that a wait at the gate ended without it.
    pub(super) fn turned_away(&mut self, now: BootInstant) {
        self.turned_away += 1;
        self.doubt_gate(now, self.turned_away.max(self.anomalies));
    }

    /// How long to wait at the gate behind a session that neither holds the lease nor has a place in the
    /// line. On a server that stalls, a contender can be such a session for as long as its grant takes, so
    /// the wait is a ttl, or half of `--wait`. None where that is not worth a wait.
    fn stranger_limit(&self) -> Option<Duration> {
        let half = self.limits.wait.map(|wait| wait / 2);
        let limit = half.into_iter().chain([self.timing.ttl]).min();
        limit.filter(|limit| *limit >= LONGEST_PAUSE)
    }

    /// How long to wait at the gate, if the user's time ends in `left`.
    pub(super) fn stand_limit(&self, left: Option<Duration>) -> Option<Duration> {
        let behind_stranger = self.anomalies > MAX_ANOMALIES;
        let stranger = self.stranger_limit().filter(|_| behind_stranger);
        left.into_iter().chain(stranger).min()
    }

    /// Tries again where the gate has not behaved as one `doubts` times in a row, but not for ever.
    fn doubt_gate(&mut self, now: BootInstant, doubts: u32) {
        self.phase = Phase::Attempt(Mode::IfFree);
        if doubts > MAX_ANOMALIES {
            self.poll_from_now_on();
        } else {
            self.next_at = now + MOMENT * doubts;
        }
    }

    /// Gives the gate up for good: what does not work once will not be worth another try.
    pub(super) fn poll_from_now_on(&mut self) {
        self.gate = Gate::Absent;
        // Our place has to say so, or nobody knows that we are alive.
        self.disconnected();
    }

    /// As the head, which has the gate, or without a gate: watches the row, and takes it as soon as that is
    /// allowed and it is our turn.
    fn watch(&mut self, now: BootInstant, allowed_at: BootInstant, row: &Sighting, ahead: u64) {
        let has_gate = self.gate == Gate::Used;
        let is_lying = !has_gate && allowed_at <= now;
        self.free_since = is_lying.then(|| self.free_since.unwrap_or(now));
        let left_lying = |since| now.since(since) >= PRIVILEGE;
        let is_our_turn = has_gate || ahead == 0 || self.free_since.is_some_and(left_lying);
        if is_our_turn && self.try_if(now, allowed_at, row) {
            return;
        }
        let OwnPlace::Current(since) = self.place else {
            self.phase = Phase::Queue;
            return;
        };
        self.phase = match has_gate || now.since(since) < POLLER_LIFE / 3 {
            true => Phase::Look,
            false => Phase::Queue,
        };
        let (until, longest) = match has_gate {
            // A row that looks free and is refused to the head is behind its fence, for as long as a
            // transaction takes: no reason for haste.
            true if allowed_at <= now => (now + LONGEST_PAUSE, LONGEST_PAUSE),
            false if ahead > 0 => (now + LONGEST_PAUSE_BEHIND, LONGEST_PAUSE_BEHIND),
            _ => (allowed_at, LONGEST_PAUSE),
        };
        self.pause_until(now, until, longest);
    }

    /// Decides to try if the row may be taken by now; without a pause, but not without end.
    fn try_if(&mut self, now: BootInstant, allowed_at: BootInstant, row: &Sighting) -> bool {
        if allowed_at > now || self.tries >= MAX_TRIES {
            self.tries = 0;
            return false;
        }
        self.tries += 1;
        self.phase = Phase::Attempt(match row.claim.is_some() || row.fenced {
            true => Mode::TakeOver {
                version: row.version,
                fenced: row.fenced,
            },
            false => Mode::IfFree,
        });
        true
    }
}
