//! When a contender may take a lease over: the one rule, which `acquire`, `diagnosis`, `wait` and the
//! model of the protocol call. Pure, no clock and no I/O.
//!
//! A lease that is not renewed may be taken over
//! - by the server's clock: [`QUEUE_LOCK_ALLOWANCE`] after it expired, if the contender has the queue
//!   lock of the server on which the holder's session had it, which proves that this session is gone;
//!   otherwise [`CLOCK_ALLOWANCE`] after it expired;
//! - by the contender's own clock: when the row has not changed for a full ttl since the contender first
//!   saw it. No clock of the server is trusted then.
//!
//! No lease of an action that an operator keeps closed may be taken over, and a lease that is only kept by
//! `--min-hold` needs no allowance: no command runs under it. The statement that takes the lease over has
//! the version as a condition, so a renewal in between wins.

use std::time::Duration;

use super::{Remainder, Sighting, Version};
use crate::lease::instant::BootInstant;
use crate::twin::{self, Mechanism};

/// How long after its end, by the server's clock, a lease is left alone where nothing but that clock
/// says that it ended. Longer makes contenders of a dead holder wait for longer; shorter trusts the
/// clocks of a cluster's nodes more.
pub const CLOCK_ALLOWANCE: Duration = Duration::from_secs(5);

/// The same where the queue lock proves that the holder's session is gone. A little less than the
/// second that users are promised, which includes the time to act.
pub const QUEUE_LOCK_ALLOWANCE: Duration = Duration::from_millis(900);

/// What a contender knows of the holder's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderSession {
    /// The contender has the queue lock, so a session that had it here is gone.
    LostQueueLock,
    /// Nothing.
    Unknown,
}

/// A version of the row, and since when a contender has seen it on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observation {
    version: Version,
    /// When it was first seen.
    pub since: BootInstant,
    ttl: Duration,
}

impl Observation {
    /// What is known of the row after it was `seen` at `received`, with what was known before.
    #[must_use]
    pub fn next(before: Option<Self>, received: BootInstant, seen: &Sighting) -> Self {
        match before {
            Some(same) if same.version == seen.version => same,
            // The lease ends, at the latest, a ttl after the server showed it.
            _ => Self {
                version: seen.version,
                since: received,
                ttl: seen.ttl,
            },
        }
    }

    /// When the row has not changed for a full ttl.
    #[must_use]
    pub fn stale_at(&self) -> BootInstant {
        self.since + self.ttl
    }
}

/// Time until the lease may be taken over by the server's clock, zero if it may be now or if the row is
/// free. An operator's pause counts.
#[must_use]
pub fn allowed_in(seen: &Sighting, session: HolderSession) -> Duration {
    let expired = match (&seen.claim, seen.remainder) {
        (None, _) => Duration::ZERO,
        (Some(_), Remainder::Left(left)) => left + allowance(seen, session),
        (Some(_), Remainder::Lapsed(ago)) => allowance(seen, session).saturating_sub(ago),
    };
    expired.max(closed(seen))
}

/// The instant from which on the lease may be taken over, or the free row be granted, by either clock.
#[must_use]
pub fn allowed_at(
    received: BootInstant,
    seen: &Sighting,
    observation: &Observation,
    session: HolderSession,
) -> BootInstant {
    let by_server = received + allowed_in(seen, session);
    by_server
        .min(observation.stale_at())
        .max(received + closed(seen))
}

fn allowance(seen: &Sighting, session: HolderSession) -> Duration {
    match session {
        _ if seen.kept_until.is_some() || twin::is_out(Mechanism::OwnClock) => Duration::ZERO,
        HolderSession::LostQueueLock if seen.gated_here => QUEUE_LOCK_ALLOWANCE,
        HolderSession::LostQueueLock | HolderSession::Unknown => CLOCK_ALLOWANCE,
    }
}

fn closed(seen: &Sighting) -> Duration {
    let closed = seen.closed.as_ref();
    closed.map_or(Duration::ZERO, |closed| closed.left)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HolderSession, Observation, allowed_at, allowed_in};
    use crate::lease::Claim;
    use crate::lease::instant::BootInstant;
    use crate::store::{Closed, Remainder, Sighting};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(remainder: Remainder) -> Sighting {
        Sighting {
            claim: Some(Claim::new([1; 16])),
            ttl: secs(30),
            remainder,
            gated_here: true,
            ..Sighting::never_held("init".parse().expect("a name"))
        }
    }

    #[test]
    fn an_expired_lease_is_left_alone_for_the_allowance_that_the_proof_deserves() {
        let left = held(Remainder::Left(secs(10)));
        for (session, allowance) in [
            (HolderSession::LostQueueLock, Duration::from_millis(900)),
            (HolderSession::Unknown, secs(5)),
        ] {
            assert_eq!(allowed_in(&left, session), secs(10) + allowance);
            let expired = held(Remainder::Lapsed(allowance));
            assert_eq!(allowed_in(&expired, session), Duration::ZERO);
        }
        let elsewhere = Sighting {
            gated_here: false,
            ..left
        };
        let proven = allowed_in(&elsewhere, HolderSession::LostQueueLock);
        assert_eq!(
            proven,
            secs(15),
            "another server's queue lock proves nothing"
        );
    }

    #[test]
    fn a_row_that_does_not_change_for_a_ttl_is_stale_whatever_the_servers_clock_says() {
        let forever = held(Remainder::Left(secs(999)));
        let first = Observation::next(None, START, &forever);
        let again = Observation::next(Some(first), START + secs(9), &forever);
        assert_eq!(again.stale_at(), START + secs(30));
        let at = allowed_at(START + secs(9), &forever, &again, HolderSession::Unknown);
        assert_eq!(at, START + secs(30));
        let mut renewed = forever;
        renewed.version.renewals += 1;
        let renewed = Observation::next(Some(again), START + secs(9), &renewed);
        assert_eq!(renewed.stale_at(), START + secs(39));
    }

    #[test]
    fn a_paused_action_is_not_granted_whoever_held_it() {
        let closed = Sighting {
            closed: Some(Closed {
                until: String::new(),
                left: secs(60),
            }),
            ..held(Remainder::Lapsed(secs(50)))
        };
        assert_eq!(allowed_in(&closed, HolderSession::Unknown), secs(60));
        let seen = Observation::next(None, START, &closed);
        let at = allowed_at(START, &closed, &seen, HolderSession::Unknown);
        assert_eq!(at, START + secs(60));
    }

    #[test]
    fn a_lease_that_only_min_hold_keeps_needs_no_allowance() {
        let kept = Sighting {
            kept_until: Some(String::new()),
            ..held(Remainder::Left(secs(7)))
        };
        assert_eq!(allowed_in(&kept, HolderSession::Unknown), secs(7));
    }
}
