//! Diagnoses the state of an action from its record.
//!
//! The diagnosis uses the time since the latest renewal by the server's clock, the state of the holder's session, and
//! the interval at which a healthy holder renews its lease.

use std::time::Duration;

use super::record::{Lease, LockRecord, LockState, Slot};
use super::takeover::{HolderSession, expired_in, paused_for};
use strum::IntoStaticStr;

use crate::lease::timing;

/// Time by which a renewal may be ahead of the server's clock although the clock was not set back: a statement reads the
/// clock before it reads the row, and the clocks of the nodes of a cluster differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Diagnosis of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Diagnosis {
    /// There is no lease.
    Free,
    /// There is no lease, and an operator has paused the action, so the action is not granted.
    Paused,
    /// The holder renews its lease in time.
    Renewing,
    /// The holder renews its lease, but its command waits for an action whose holder's command waits for this action.
    Deadlocked,
    /// The run has ended, and the lease is held for `--min-hold`.
    MinHold,
    /// An operator revoked the lease. The lease ends when the command is dead or when the lease expires.
    Revoked,
    /// The time of the latest renewal is ahead of the server's clock, normally because the clock was set back after the
    /// renewal.
    ClockSetBack,
    /// A renewal is overdue. If the holder's session is alive, the holder's process is frozen, or the server's clock
    /// was set forward. If the state of the session is unknown, the holder may also be disconnected from the server.
    NotRenewing,
    /// The holder's session has ended, and the holder has not reconnected. The holder is dead or disconnected from the
    /// server.
    Gone,
    /// The lease has expired by the server's clock.
    Expired,
    /// The row cannot be read, because dlock did not write it.
    Odd,
}

impl Diagnosis {
    /// Returns the diagnosis of `record`. Of several leases, it is that of the [main lease](LockRecord::main_lease).
    #[must_use]
    pub fn of(record: &LockRecord) -> Self {
        match record.state() {
            LockState::Free => Self::Free,
            LockState::Paused => Self::Paused,
            LockState::Odd => Self::Odd,
            _ => match Self::of_lease(record.main_lease()) {
                Self::Renewing if record.deadlock_with.is_some() => Self::Deadlocked,
                diagnosis => diagnosis,
            },
        }
    }

    /// Returns the diagnosis of a lease.
    fn of_lease(lease: &Lease) -> Self {
        match lease.state() {
            LockState::Revoked => Self::Revoked,
            LockState::Expired => Self::Expired,
            LockState::Held if lease.min_hold_until.is_some() => Self::MinHold,
            LockState::Held if lease.session_alive == Some(false) => Self::Gone,
            LockState::Held if lease.renewed_ahead() > CLOCK_TOLERANCE => Self::ClockSetBack,
            LockState::Held if lease.renewed_ago() > timing::renewal_overdue_after(lease.ttl) => {
                Self::NotRenewing
            }
            LockState::Held => Self::Renewing,
            LockState::Free | LockState::Paused | LockState::Odd => Self::Free,
        }
    }

    /// Returns the value for JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How much attention an action needs. The order is from the most to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A problem.
    Problem,
    /// Nobody can be granted the action at present, or no process has ever used it.
    Notable,
    /// The holder renews its lease.
    Healthy,
    /// The action is free.
    Free,
}

impl Severity {
    /// Returns the severity of the state in `record`.
    #[must_use]
    pub fn of(record: &LockRecord) -> Self {
        match Diagnosis::of(record) {
            Diagnosis::Free if !record.is_known => Self::Notable,
            diagnosis => Self::of_diagnosis(diagnosis),
        }
    }

    const fn of_diagnosis(diagnosis: Diagnosis) -> Self {
        match diagnosis {
            Diagnosis::Free => Self::Free,
            Diagnosis::Renewing => Self::Healthy,
            Diagnosis::Paused | Diagnosis::MinHold => Self::Notable,
            Diagnosis::Revoked
            | Diagnosis::Deadlocked
            | Diagnosis::ClockSetBack
            | Diagnosis::NotRenewing
            | Diagnosis::Gone
            | Diagnosis::Expired
            | Diagnosis::Odd => Self::Problem,
        }
    }

    /// Returns the number for JSON, from 0 for a problem to 3 for a free action.
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Self::Problem => 0,
            Self::Notable => 1,
            Self::Healthy => 2,
            Self::Free => 3,
        }
    }
}

impl LockRecord {
    /// Returns the lease that describes the action in views with room for one: the lease in the record or, if the leases
    /// are in slots, the one that needs most attention, and of these the oldest.
    #[must_use]
    pub fn main_lease(&self) -> &Lease {
        let key = |lease: &&Lease| {
            let severity = Severity::of_diagnosis(Diagnosis::of_lease(lease));
            (severity, lease.version.token)
        };
        let slots = self.slots.iter().map(|slot| &slot.lease);
        slots.min_by_key(key).unwrap_or(&self.lease)
    }

    /// Returns the leases in slots, each as the record of an action with only this lease.
    pub fn each_slot(&self) -> impl Iterator<Item = (&Slot, Self)> {
        let without_slots = Self {
            slots: Vec::new(),
            ..self.clone()
        };
        self.slots.iter().map(move |slot| {
            let record = Self {
                lease: slot.lease.clone(),
                sessions: slot.sessions.clone(),
                ..without_slots.clone()
            };
            (slot, record)
        })
    }
}

/// Returns true if a renewal was overdue when an operator revoked the lease of `record`. The holder is then frozen or cut
/// off, and stops its command only when it continues.
#[must_use]
pub fn is_revoked_late(record: &LockRecord) -> bool {
    let lease = record.main_lease();
    lease.revoked_ago.is_some_and(|ago| {
        lease.renewed_ago().saturating_sub(ago) > timing::renewal_overdue_after(lease.ttl)
    })
}

/// Returns the time until another contender may take over the main lease, if the holder does not renew the lease and no
/// operator resumes the action during that time. If the holder owns the queue lock, the result assumes that the queue
/// lock passes to the next contender.
#[must_use]
pub fn takeover_in(record: &LockRecord) -> Duration {
    let ends = expired_in(record.main_lease(), HolderSession::LostQueueLock);
    ends.max(paused_for(record))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Diagnosis, is_revoked_late, takeover_in};
    use crate::lease::OwnerId;
    use crate::store::record::Renewed;
    use crate::store::{Expiry, LockRecord};

    /// Returns the record of a lease of 30 s that was renewed `ago` seconds ago.
    fn renewed(ago: u64) -> LockRecord {
        LockRecord::never_held("init".parse().expect("a name")).with_lease(|lease| {
            lease.owner_id = Some(OwnerId::new([1; 16]));
            lease.ttl = Duration::from_secs(30);
            lease.renewed = Renewed::Ago(Duration::from_secs(ago));
            lease.expiry = match 30_u64.checked_sub(ago) {
                Some(left) => Expiry::In(Duration::from_secs(left)),
                None => Expiry::Ago(Duration::from_secs(ago - 30)),
            };
        })
    }

    #[test]
    fn renewal_is_overdue_after_renew_interval_plus_request_timeout() {
        assert_eq!(Diagnosis::of(&renewed(7)), Diagnosis::Renewing);
        assert_eq!(Diagnosis::of(&renewed(8)), Diagnosis::NotRenewing);
        assert_eq!(Diagnosis::of(&renewed(31)), Diagnosis::Expired);
    }

    #[test]
    fn renewal_during_the_read_is_no_sign_of_a_clock_that_was_set_back() {
        for (ahead, wanted) in [
            (1, Diagnosis::Renewing),
            (1_000, Diagnosis::Renewing),
            (1_001, Diagnosis::ClockSetBack),
        ] {
            let record = renewed(0)
                .with_lease(|lease| lease.renewed = Renewed::Ahead(Duration::from_millis(ahead)));
            assert_eq!(Diagnosis::of(&record), wanted, "{ahead}");
        }
    }

    #[test]
    fn ended_session_has_priority_over_overdue_renewal() {
        let record = renewed(20).with_lease(|lease| lease.session_alive = Some(false));
        assert_eq!(Diagnosis::of(&record), Diagnosis::Gone);
    }

    #[test]
    fn only_a_renewal_that_was_overdue_before_the_revocation_is_late() {
        for (renewed_ago, revoked_ago, is_late) in [
            (20, None, false),
            (20, Some(2), true),
            (20, Some(15), false),
            (7, Some(0), false),
            (8, Some(0), true),
            (2, Some(5), false),
        ] {
            let record = renewed(renewed_ago)
                .with_lease(|lease| lease.revoked_ago = revoked_ago.map(Duration::from_secs));
            assert_eq!(is_revoked_late(&record), is_late, "{record:?}");
        }
    }

    #[test]
    fn lease_with_queue_lock_is_taken_over_sooner() {
        let record = renewed(20);
        assert_eq!(takeover_in(&record), Duration::from_secs(15));
        let has_queue_lock = record.with_lease(|lease| lease.had_queue_lock_here = true);
        assert_eq!(takeover_in(&has_queue_lock), Duration::from_millis(10_900));
    }
}
