//! The gate and the line of the model's server.

use dlock::store::{Gate, Keeper};

use super::{Place, Server, Session};

impl Server {
    /// `RELEASE_LOCK`.
    pub(super) fn pass(&mut self, session: Session) {
        if self.gate.first() == Some(&session) {
            self.gate.remove(0);
        }
    }

    /// `GET_LOCK` without waiting.
    pub(super) fn try_gate(&mut self, session: Session) {
        if self.gate.is_empty() {
            self.gate.push(session);
        }
    }

    pub(super) fn queue(&mut self, clock: i8, session: Session, claim: u8, gate: Gate) {
        let place = Place {
            claim,
            session: Some(session),
            seen: (gate == Gate::Absent).then_some(clock),
        };
        match self.line.iter_mut().find(|place| place.claim == claim) {
            Some(old) => *old = place,
            None => self.line.push(place),
        }
    }

    pub(super) fn view(&self, clock: i8, session: Session, claim: u8, gate: Gate) -> (Keeper, u8) {
        let keeper = match (gate, self.gate.first()) {
            (Gate::Absent, _) => Keeper::Unasked,
            (Gate::Used, None) => Keeper::Nobody,
            (Gate::Used, Some(keeper)) if *keeper == session => Keeper::Us,
            (Gate::Used, Some(keeper)) => {
                let holder = self.row.gated && self.row.session == Some(*keeper);
                let waits = |place: &Place| place.session == Some(*keeper);
                match holder || self.line.iter().any(waits) {
                    true => Keeper::Line,
                    false => Keeper::Stranger,
                }
            }
        };
        let before = self.line.iter().take_while(|place| place.claim != claim);
        let counts =
            |place: &&Place| self.row.claim != Some(place.claim) && !place.is_silent(clock);
        let in_front = match self.row.claim {
            Some(holder) if holder == claim => 0,
            Some(_) | None => before.filter(counts).count(),
        };
        (keeper, u8::try_from(in_front).expect("a short line"))
    }
}
