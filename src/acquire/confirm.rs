//! Having the lease: when a grant counts, and what to give up in the end.

use std::time::Duration;

use super::{Acquire, OwnPlace, Phase};
use crate::lease::instant::BootInstant;
use crate::lease::{Grant, Token};
use crate::store::{Gate, Parting};

/// From this length of a run on, somebody may have come to wait for its end, and the cost of a hand-off
/// that nobody waits for does not show.
const LONG_RUN: Duration = Duration::from_millis(100);

/// A lease that is ours, and what else we have on its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquiredLease {
    /// What to renew and release with.
    pub grant: Grant,
    /// When the request that proves it was sent: deadlines count from here.
    pub sent: BootInstant,
    /// Whether the gate is to be taken again on a new connection and released in the end.
    pub gate: Gate,
    /// Whether our place in the line may still exist. It does not count while we hold the lease, and
    /// goes with the release.
    pub queued: bool,
}

impl AcquiredLease {
    /// Whether somebody is likely to wait for the end of a run of this length: somebody who stood in
    /// line has others behind it soon enough.
    #[must_use]
    pub fn is_awaited(&self, took: Duration) -> bool {
        self.queued || took >= LONG_RUN
    }
}

impl Acquire {
    pub(super) fn granted(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        // An answer that took too long (this process was frozen) may be to a lease that is over.
        if now >= self.timing.deadline(sent).term {
            self.unknown_since.get_or_insert(sent);
            self.confirm(now, token);
        } else {
            self.acquired(token, sent);
        }
    }

    /// The row is ours by an attempt that nobody knows the time of: a renewal that is sent and read back
    /// before the lease can be over makes it count. What may be over already is freed.
    pub(super) fn confirm(&mut self, now: BootInstant, token: Token) {
        let granted = self.unknown_since.unwrap_or(self.started);
        let until = self.timing.deadline(granted).kill;
        self.phase = match now < until {
            true => Phase::Confirm {
                token,
                since: now,
                until,
            },
            false => Phase::Settle(token),
        };
    }

    pub(super) fn confirmed(&mut self, now: BootInstant, sent: BootInstant) {
        if let Phase::Confirm { token, until, .. } = self.phase
            && now < until
            && now < self.timing.deadline(sent).term
        {
            self.acquired(token, sent);
        }
    }

    fn acquired(&mut self, token: Token, sent: BootInstant) {
        self.phase = Phase::Acquired(AcquiredLease {
            grant: self.grant(token),
            sent,
            gate: self.gate,
            queued: self.place != OwnPlace::None,
        });
    }

    /// What has to be given up on leaving, if there is anything: a lease may have been granted to
    /// us without our knowing, and our place in the line has to go.
    #[must_use]
    pub fn parting(&self) -> Option<Parting> {
        let is_asked = self.in_flight && matches!(self.phase, Phase::Attempt(_));
        let may_hold = self.unknown_since.is_some()
            || matches!(self.phase, Phase::Confirm { .. } | Phase::Settle(_))
            || is_asked;
        (may_hold || self.place != OwnPlace::None).then(|| self.all_of_ours())
    }

    /// Whatever the server has of our claim.
    pub(super) fn all_of_ours(&self) -> Parting {
        Parting {
            claim: self.claim,
            token: None,
            gate: self.gate,
            queued: self.place != OwnPlace::None,
            keep: None,
            run: None,
            handed_off: false,
        }
    }
}
