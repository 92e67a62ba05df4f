//! Having the lease: when a grant counts, and what to give up in the end.

use std::time::Duration;

use super::{Acquire, Aim};
use crate::lease::instant::BootInstant;
use crate::lease::{Grant, Token};
use crate::store::{Gate, Parting, Run};

/// A lease that is ours, and what else we have on its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    /// What to renew and release with.
    pub grant: Grant,
    /// When the request that proves it was sent: deadlines count from here.
    pub sent: BootInstant,
    /// Whether the gate is to be taken anew on a new connection and released in the end.
    pub gate: Gate,
}

impl Hold {
    /// What to give up in the end; `run` is what came of the command, if it was started, and
    /// `keep` how long nobody else is to have the lease.
    #[must_use]
    pub const fn parting(&self, run: Option<Run>, keep: Option<Duration>) -> Parting {
        Parting {
            claim: self.grant.claim,
            token: Some(self.grant.token),
            gate: self.gate,
            // It goes right after the grant.
            queued: false,
            keep,
            run,
        }
    }
}

impl Acquire {
    pub(super) fn granted(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        // After a lost answer the grant may be older than this attempt; and an answer that took
        // too long (this process was frozen) may be to a lease that is over. A renewal tells.
        if self.doubtful.is_some() || now >= self.timing.deadline(sent).term {
            self.aim = Aim::Confirm(token);
        } else {
            self.hold(token, sent);
        }
    }

    pub(super) fn confirmed(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        if now < self.timing.deadline(sent).term {
            self.hold(token, sent);
        }
    }

    fn hold(&mut self, token: Token, sent: BootInstant) {
        self.end = Some(Hold {
            grant: self.grant(token),
            sent,
            gate: self.gate,
        });
    }

    pub(super) const fn grant(&self, token: Token) -> Grant {
        Grant {
            claim: self.claim,
            token,
        }
    }

    /// What has to be given up on leaving, if there is anything: a lease may have been granted to
    /// us without our knowing, and our place in the line is to go.
    #[must_use]
    pub fn parting(&self) -> Option<Parting> {
        let may_hold = self.doubtful.is_some()
            || matches!(self.aim, Aim::Confirm(_))
            || (self.open && matches!(self.aim, Aim::Attempt(_)));
        (may_hold || self.queued).then_some(Parting {
            claim: self.claim,
            token: None,
            gate: self.gate,
            queued: self.queued,
            keep: None,
            run: None,
        })
    }
}
