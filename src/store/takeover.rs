//! Decides when a contender may take over a lease. `acquire`, `diagnosis`, `wait` and the model of the protocol call
//! this code, which is the only implementation of the rule. It is pure: it reads no clock and does no I/O.
//!
//! If a holder no longer renews its lease, a contender may take over the lease when one of these conditions holds:
//! - By the server's clock, the lease expired at least [`QUEUE_LOCK_ALLOWANCE`] ago, and the contender owns the queue
//!   lock on the server where the holder's session owned it. Ownership of the queue lock proves that the holder's
//!   session has ended. If the holder's session had no queue lock on this server, there can be no such proof, and the lease
//!   must have expired at least [`CLOCK_SKEW_ALLOWANCE`] ago. If it had the queue lock, and the contender does not own it,
//!   the session may be alive, and a clock that was set forward is no evidence.
//! - By the contender's own clock, the version of the record has not changed for a full ttl since the contender first
//!   read it. This condition does not depend on the server's clock.
//!
//! While an action is paused, its lease cannot be taken over. A lease that is held only for `--min-hold` needs no
//! allowance, because no command runs under it. The statement that takes over a lease requires the version that the
//! contender read. The statement has no effect if the holder has renewed the lease since that read.

use std::time::Duration;

use super::record::{Expiry, Lease, LockRecord, Version};
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};

/// Minimum time between the expiry of a lease and its take-over, both by the server's clock, if that clock is the only
/// evidence. A longer allowance delays the take-over from a dead holder. A shorter allowance tolerates less clock skew
/// between the nodes of a cluster.
pub const CLOCK_SKEW_ALLOWANCE: Duration = Duration::from_secs(5);

/// Minimum time between the expiry of a lease and its take-over, if the queue lock proves that the holder's session has
/// ended. dlock promises a take-over within 1 s of the expiry. The allowance is slightly shorter, because the take-over
/// itself takes time.
pub const QUEUE_LOCK_ALLOWANCE: Duration = Duration::from_millis(900);

/// State of the holder's session, as far as a contender can determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderSession {
    /// The contender owns the queue lock. If the holder's session owned it on the same server, that session has ended.
    LostQueueLock,
    /// The state of the session is unknown.
    Unknown,
}

/// A version of the record, and the time when a contender first read it, by the contender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observation {
    version: Version,
    /// Time when this version was first read.
    pub since: BootInstant,
    ttl: Duration,
}

impl Observation {
    /// Returns the observation after `lease` was read at the time `received`. `before` is the previous observation, or
    /// None if this is the first read.
    #[must_use]
    pub fn next(before: Option<Self>, received: BootInstant, lease: &Lease) -> Self {
        match before {
            Some(same) if same.version == lease.version => same,
            // The lease ends at most one ttl after the server returned this version.
            _ => Self {
                version: lease.version,
                since: received,
                ttl: lease.ttl,
            },
        }
    }

    /// Returns true if this observation is of an earlier version than `before`. Versions only grow, unless the database has
    /// lost writes.
    pub(super) fn is_older_than(&self, before: &Self) -> bool {
        self.version < before.version
    }

    /// Returns the time at which the record will have been unchanged for a full ttl.
    #[must_use]
    pub fn stale_at(&self) -> BootInstant {
        self.since + self.ttl
    }
}

/// Returns the time until all leases of the action may be taken over, by the server's clock. If the action is paused, the
/// result is at least the remaining time of the pause. Otherwise the result is zero if the leases may be taken over now,
/// or if the action is free.
#[must_use]
pub fn allowed_in(record: &LockRecord, session: HolderSession) -> Duration {
    let leases = record.leases();
    let expired = leases.map(|lease| expired_in(lease, session)).max();
    expired.unwrap_or_default().max(paused_for(record))
}

/// Does the same as [`allowed_in`] for one lease, whatever the pause of its action.
pub(super) fn expired_in(lease: &Lease, session: HolderSession) -> Duration {
    match (&lease.owner_id, lease.expiry) {
        (None, _) => Duration::ZERO,
        (Some(_), Expiry::In(left)) => left + allowance(lease, session),
        (Some(_), Expiry::Ago(ago)) => allowance(lease, session).saturating_sub(ago),
    }
}

/// Returns the earliest time at which the lease may be taken over, or at which a free action may be granted, if the action
/// is not paused. The result is the earlier of the times by the two clocks.
#[must_use]
pub fn allowed_at(
    received: BootInstant,
    lease: &Lease,
    observation: &Observation,
    session: HolderSession,
) -> BootInstant {
    let by_server = received + expired_in(lease, session);
    let by_own_clock = observation.stale_at();
    match is_evidence(lease, session) {
        true => by_server.min(by_own_clock),
        false => by_own_clock,
    }
}

/// Returns true if the server's clock can show that the lease has ended. It cannot if the holder's session may still have
/// the queue lock of this server, or is alive without it.
fn is_evidence(lease: &Lease, session: HolderSession) -> bool {
    let is_lease = lease.owner_id.is_some() && lease.min_hold_until.is_none();
    let may_own_queue_lock = session == HolderSession::Unknown && lease.had_queue_lock_here;
    let may_be_alive = may_own_queue_lock || lease.session_alive == Some(true);
    !(is_lease && may_be_alive) || mutant::is_disabled(Safeguard::OwnClock)
}

fn allowance(lease: &Lease, session: HolderSession) -> Duration {
    match session {
        _ if lease.min_hold_until.is_some() || mutant::is_disabled(Safeguard::OwnClock) => {
            Duration::ZERO
        }
        HolderSession::LostQueueLock if lease.had_queue_lock_here => QUEUE_LOCK_ALLOWANCE,
        HolderSession::LostQueueLock | HolderSession::Unknown => CLOCK_SKEW_ALLOWANCE,
    }
}

/// Returns the remaining time of a pause of the action.
pub(super) fn paused_for(record: &LockRecord) -> Duration {
    let paused = record.pause.as_ref();
    paused.map_or(Duration::ZERO, |paused| paused.left)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HolderSession, Observation, allowed_at, allowed_in};
    use crate::lease::OwnerId;
    use crate::lease::instant::BootInstant;
    use crate::lease::limit::Limit;
    use crate::store::admission::{Observations, admission};
    use crate::store::{Expiry, LockRecord, Pause};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(expiry: Expiry) -> LockRecord {
        LockRecord::never_held("init".parse().expect("a name")).with_lease(|lease| {
            lease.owner_id = Some(OwnerId::new([1; 16]));
            lease.ttl = secs(30);
            lease.expiry = expiry;
            lease.had_queue_lock_here = true;
        })
    }

    #[test]
    fn a_clock_that_was_set_is_no_evidence_if_the_holder_may_have_the_queue_lock() {
        let record = held(Expiry::Ago(secs(3600)));
        let observation = Observation::next(None, START, &record.lease);
        let at =
            |record: &LockRecord, session| allowed_at(START, &record.lease, &observation, session);
        assert_eq!(at(&record, HolderSession::LostQueueLock), START);
        assert_eq!(at(&record, HolderSession::Unknown), START + secs(30));
        let without = record
            .clone()
            .with_lease(|lease| lease.had_queue_lock_here = false);
        assert_eq!(at(&without, HolderSession::Unknown), START);
        let alive = without
            .clone()
            .with_lease(|lease| lease.session_alive = Some(true));
        for session in [HolderSession::Unknown, HolderSession::LostQueueLock] {
            assert_eq!(at(&alive, session), START + secs(30));
        }
    }

    #[test]
    fn take_over_waits_for_the_allowance_after_expiry() {
        let left = held(Expiry::In(secs(10)));
        for (session, allowance) in [
            (HolderSession::LostQueueLock, Duration::from_millis(900)),
            (HolderSession::Unknown, secs(5)),
        ] {
            assert_eq!(allowed_in(&left, session), secs(10) + allowance);
            let expired = held(Expiry::Ago(allowance));
            assert_eq!(allowed_in(&expired, session), Duration::ZERO);
        }
        let elsewhere = left.with_lease(|lease| lease.had_queue_lock_here = false);
        let proven = allowed_in(&elsewhere, HolderSession::LostQueueLock);
        assert_eq!(
            proven,
            secs(15),
            "the queue lock of another server is not proof"
        );
    }

    #[test]
    fn record_unchanged_for_a_ttl_is_stale_despite_the_server_clock() {
        let forever = held(Expiry::In(secs(999)));
        let first = Observation::next(None, START, &forever.lease);
        let again = Observation::next(Some(first), START + secs(9), &forever.lease);
        assert_eq!(again.stale_at(), START + secs(30));
        let at = allowed_at(
            START + secs(9),
            &forever.lease,
            &again,
            HolderSession::Unknown,
        );
        assert_eq!(at, START + secs(30));
        let mut renewed = forever;
        renewed.lease.version.renewals += 1;
        let renewed = Observation::next(Some(again), START + secs(9), &renewed.lease);
        assert_eq!(renewed.stale_at(), START + secs(39));
    }

    #[test]
    fn paused_action_is_not_granted() {
        let paused = LockRecord {
            pause: Some(Box::new(Pause {
                until: String::new(),
                left: secs(60),
            })),
            ..held(Expiry::Ago(secs(50)))
        };
        assert_eq!(allowed_in(&paused, HolderSession::Unknown), secs(60));
        let observed = Observations::next(None, START, &paused);
        let session = HolderSession::Unknown;
        let at = admission(START, &paused, &observed, Limit::ONE, session).at;
        assert_eq!(at, START + secs(60));
    }

    #[test]
    fn min_hold_lease_needs_no_allowance() {
        let min_hold = held(Expiry::In(secs(7)))
            .with_lease(|lease| lease.min_hold_until = Some(String::new()));
        assert_eq!(allowed_in(&min_hold, HolderSession::Unknown), secs(7));
    }
}
