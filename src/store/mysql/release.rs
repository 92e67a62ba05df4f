//! Hands off and releases the lease, and records the outcome of the command.

use super::database::Database;
use super::exchange::RequestKind;
use super::{rows, statements};
use crate::lease::{Grant, Token};
use crate::store::{Contender, Failure, FailureKind, ReleaseRequest, Response, RunHistory};

impl Database {
    /// Hands off the lease on the open connection. If there is no open connection, sends nothing and returns
    /// `NotHolder`.
    pub(super) fn hand_off(
        &mut self,
        contender: &Contender,
        grant: Grant,
    ) -> Result<Response, Failure> {
        let packet = statements::hand_off(contender, grant.owner_id);
        // A new connection would be useless, because contenders ignore a hand-off by a session that is not in the
        // record. So would a hand-off of a lease in a slot: the record does not contain it.
        if self.connection.is_none() || !contender.limit.is_exclusive() {
            return Ok(Response::NotHolder(None));
        }
        self.handed_off_on.clone_from(&self.server_name);
        Ok(
            match self.exchange(RequestKind::HandOff, &packet, rows::is_confirmed)? {
                true => Response::HandedOff,
                false => Response::NotHolder(None),
            },
        )
    }

    /// Releases the lease, or returns the reason why this process does not hold it.
    pub(super) fn release(
        &mut self,
        contender: &Contender,
        request: &ReleaseRequest,
    ) -> Result<Response, Failure> {
        let without_history;
        let contender = match request.history {
            RunHistory::Written => contender,
            RunHistory::Skipped => {
                without_history = Contender {
                    history: 0,
                    ..contender.clone()
                };
                &without_history
            }
        };
        let release = statements::release(contender, request, self.handed_off_on.as_deref());
        let freed = self.exchange(RequestKind::Release, &release, rows::release_result)?;
        let response = freed.answer().ok_or_else(not_released)?;
        if freed.needs_reconciling(request) {
            self.reconcile(contender, request, freed.revoked)?;
        }
        Ok(response)
    }

    /// Frees a lease that an operator has revoked. Also records the run if an operator has freed the row with SQL.
    fn reconcile(
        &mut self,
        contender: &Contender,
        request: &ReleaseRequest,
        revoked: Option<Token>,
    ) -> Result<(), Failure> {
        let reconcile = statements::reconcile(contender, request, revoked);
        match self.exchange(RequestKind::Plain, &reconcile, rows::is_confirmed)? {
            true => Ok(()),
            false => Err(not_released()),
        }
    }
}

fn not_released() -> Failure {
    let why = "the record still contains the lease after its release";
    Failure::new(FailureKind::Unknown, why)
}
