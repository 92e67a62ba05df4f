//! Decides when a grant counts, and creates the request that releases everything when the contender gives up.

use super::{Acquire, AcquirePhase, AcquiredLease, OwnEntry};
use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::store::{EarlierSessions, ReleaseRequest};

impl Acquire {
    pub(super) fn granted(
        &mut self,
        now: BootInstant,
        grant: Grant,
        sessions: EarlierSessions,
        sent: BootInstant,
    ) {
        // If the response arrived too late, for example because this process was frozen, the lease may already have
        // expired.
        if now >= self.timing.deadline(sent).term {
            self.unknown_since.get_or_insert(sent);
            self.confirm(now, grant);
        } else {
            self.acquired(grant, sessions, sent);
        }
    }

    /// Handles a record that has this owner id when the time of the grant is unknown or the response arrived late. The
    /// grant counts only if dlock renews the lease, and reads the record to confirm the renewal, before the lease could
    /// have expired. If the lease may already have expired, or if it is an earlier lease that the database contains
    /// again, dlock frees the record.
    pub(super) fn confirm(&mut self, now: BootInstant, grant: Grant) {
        let granted = self.unknown_since.unwrap_or(self.time.started());
        let until = self.timing.deadline(granted).kill;
        let is_possible = self.lost_grants.is_own_lease_possible(now, grant.token);
        self.phase = match is_possible && now < until {
            true => AcquirePhase::Confirm {
                grant,
                since: now,
                until,
            },
            false => AcquirePhase::FreeOwnRecord(grant.token, None),
        };
    }

    pub(super) fn confirmed(&mut self, now: BootInstant, sent: BootInstant) {
        if let AcquirePhase::Confirm { grant, until, .. } = self.phase
            && now < until
            && now < self.timing.deadline(sent).term
        {
            // The renewal does not tell whether the record contains sessions, so they count as possible.
            self.acquired(grant, EarlierSessions::Noted, sent);
        }
    }

    fn acquired(&mut self, grant: Grant, sessions: EarlierSessions, sent: BootInstant) {
        self.phase = AcquirePhase::Acquired(AcquiredLease {
            grant,
            sent,
            queue_lock: self.queue_lock(),
            has_entry: self.place.entry != OwnEntry::None,
            earlier_sessions: sessions,
            silence: self.silence(),
        });
    }

    /// Returns the release request to send before the contender leaves the queue. The request is needed if this
    /// contender may have been granted a lease without receiving the response, or if a queue entry may exist. None if
    /// there is nothing to release.
    #[must_use]
    pub fn release_request(&self) -> Option<ReleaseRequest> {
        let is_trying = self.in_flight && matches!(self.phase, AcquirePhase::TryAcquire(_));
        let may_hold = self.unknown_since.is_some()
            || matches!(
                self.phase,
                AcquirePhase::Confirm { .. }
                    | AcquirePhase::FreeOwnRecord(..)
                    | AcquirePhase::Acquired(_)
            )
            || is_trying;
        (may_hold || self.place.entry != OwnEntry::None).then(|| self.release_everything())
    }

    /// Returns a request that releases everything that belongs to this owner id. The process must not have started a
    /// command.
    #[must_use]
    pub fn release_everything(&self) -> ReleaseRequest {
        ReleaseRequest {
            has_entry: self.place.entry != OwnEntry::None,
            ..ReleaseRequest::without_run(self.owner_id, None, self.queue_lock())
        }
    }
}
