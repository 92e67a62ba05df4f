//! The lease of a keeper, from the grant to the release: its renewals, the sessions of the work, and the checks of the
//! server's address. Pure.

use std::time::Duration;

use super::notice::Notice;
use crate::lease::instant::BootInstant;
use crate::protocol::address::AddressChecks;
use crate::protocol::renew::{RenewalOutcome, Renewals};
use crate::protocol::sessions::{LookResult, SessionTracker, TrackingProblem};
use crate::store::session::FoundSessions;
use crate::store::{Failure, LockRecord, Loss, RenewRequest, Response, TimedResponse};

/// Minimum duration of a run for which a hand-off is worthwhile. During a run that takes at least this long, a waiter
/// may have arrived, and the cost of an unneeded hand-off is small compared with the run.
const LONG_RUN: Duration = Duration::from_millis(100);

/// A lease that this process has been granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KeptLease {
    /// True if the queue entry may still exist.
    pub(super) has_entry: bool,
    pub(super) renewals: Renewals,
    /// The sessions of the work.
    pub(super) sessions: SessionTracker,
    /// None if the address is not checked.
    pub(super) address: Option<AddressChecks>,
    /// Number of sessions that this process has killed.
    pub(super) killed: u32,
    /// How the lease was lost. None if no response has reported a loss.
    pub(super) loss: Option<Loss>,
    /// Failure of the most recent renewal. None if no renewal has failed since the most recent success.
    pub(super) failure: Option<Failure>,
    /// Time of the first failed renewal or closed connection since the most recent success. None if there was none.
    failing_since: Option<BootInstant>,
}

impl KeptLease {
    pub(super) const fn new(
        has_entry: bool,
        renewals: Renewals,
        sessions: SessionTracker,
        address: Option<AddressChecks>,
    ) -> Self {
        Self {
            has_entry,
            renewals,
            sessions,
            address,
            killed: 0,
            loss: None,
            failure: None,
            failing_since: None,
        }
    }

    /// Returns true if other contenders are likely to wait for the end of work that took `took`. A holder that had to wait
    /// in the queue is likely to have waiters behind it.
    pub(super) fn is_awaited(&self, took: Duration) -> bool {
        self.has_entry || took >= LONG_RUN
    }

    /// Returns the renewal of a running command that is due at `now`. It also looks for the sessions of the command.
    pub(super) fn renewal(&mut self, now: BootInstant) -> Option<RenewRequest> {
        // A renewal may have been in flight when the command opened a connection.
        if self.sessions.is_look_due() {
            self.renewals.expedite_note(now);
        }
        let mut request = self.renewals.due(now)?;
        request.look = self.sessions.look().map(Box::new);
        Some(request)
    }

    /// Handles the response to a renewal. If `is_running` is true, the work runs, so the response may contain its sessions.
    pub(super) fn handle_response(
        &mut self,
        now: BootInstant,
        response: TimedResponse,
        is_running: bool,
    ) -> Notice {
        let took = response.received.since(response.sent);
        let outcome = self.renewals.handle_response(now, response);
        let found = match outcome {
            RenewalOutcome::Renewed(_, ref found) => found.as_deref().cloned(),
            _ => None,
        };
        let problem = match outcome {
            RenewalOutcome::Lost(..) => None,
            _ if is_running => self.looked(now, found),
            _ => None,
        };
        match outcome {
            RenewalOutcome::Renewed(..) => {
                if let Some(address) = &mut self.address {
                    address.renewed();
                }
                self.failure = None;
                Notice::Renewed {
                    took,
                    failing_since: self.failing_since.take(),
                    problem,
                }
            }
            RenewalOutcome::Failed(failure) => {
                self.failing_since.get_or_insert(now);
                let before = self.failure.replace(failure.clone());
                Notice::RenewalFailed {
                    failure,
                    is_first: before.is_none(),
                }
            }
            RenewalOutcome::GrantLost { is_first } => {
                self.failing_since.get_or_insert(now);
                Notice::GrantLost { is_first }
            }
            RenewalOutcome::Lost(loss, record) => {
                self.loss = Some(loss);
                Notice::Lost(loss, record)
            }
        }
    }

    /// Returns the record in `response` if another holder has the lease.
    pub(super) fn taken_over(&self, response: &TimedResponse) -> Option<Box<LockRecord>> {
        let Ok(Response::Record(record)) = &response.outcome else {
            return None;
        };
        let own = self.renewals.grant().owner_id;
        let is_other = record
            .lease
            .owner_id
            .is_some_and(|owner_id| owner_id != own);
        is_other.then(|| Box::new(record.clone()))
    }

    /// Handles the result of a look for the sessions of the work. Returns the problem to report.
    fn looked(
        &mut self,
        now: BootInstant,
        found: Option<Result<FoundSessions, Failure>>,
    ) -> Option<TrackingProblem> {
        match self.sessions.looked(found) {
            LookResult::Noted => None,
            LookResult::LookSoon => {
                self.renewals.expedite_note(now);
                None
            }
            LookResult::Incomplete(problem) => Some(problem),
        }
    }

    /// Handles a connection that the server has closed. Returns the limit if connections that are silent for that time
    /// end, and this was not known.
    pub(super) fn disconnected(&mut self, now: BootInstant) -> Option<Duration> {
        self.failing_since.get_or_insert(now);
        self.renewals.disconnected(now)
    }

    /// Handles the end of a read over a new connection. Returns true if the address leads to another server, or if the
    /// lease is lost.
    pub(super) fn has_moved(&mut self, now: BootInstant, record: Option<&LockRecord>) -> bool {
        let address = self.address.as_mut();
        let has_moved = address.is_some_and(|address| address.has_moved(record));
        if has_moved {
            self.failing_since.get_or_insert(now);
            self.renewals.expedite(now);
        }
        has_moved
    }

    /// Removes history that does not affect the behaviour.
    pub(super) fn normalize_for_model(&mut self, now: BootInstant) {
        if let Some(address) = &mut self.address {
            address.normalize_for_model(now);
        }
        (self.failure, self.failing_since) = (None, None);
    }
}
