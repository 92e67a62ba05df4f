//! Applies the outcomes of renewals to a run, and reports them. Runs on the main thread.

use std::time::Duration;

use super::RunState;
use crate::commands::exec::event_loop::EventLoop;
use crate::lease::instant::BootInstant;
use crate::process::supervisor::SupervisorInput;
use crate::protocol::renew::{RenewalOutcome, Renewals};
use crate::report::log::EventKind;
use crate::report::{lost_grant, messages};
use crate::store::{Failure, LockRecord, Loss};
use crate::sys::clock;

impl EventLoop<'_> {
    /// Reports that the server has closed the connection, unless this has been reported.
    ///
    /// `dlock release` and a take-over also close the connection, and the next renewal reports the loss. Therefore this
    /// report waits for the outcome of that renewal, but no longer than one request timeout.
    pub(super) fn report_disconnected(&self, run: &mut RunState<'_>) {
        if run.disconnected_at.take().is_some() {
            let action = &self.action;
            let text =
                format_args!("the server has closed the connection of {action}; reconnecting");
            self.report.info(EventKind::Disconnected, text);
        }
    }

    /// Handles the end of a read over a new connection. If the address leads to another server, drops the connection and
    /// renews the lease there. That renewal decides whether this process still holds the lease. It also reports the
    /// operator if the lease is revoked. Returns true if the connection was dropped.
    pub(in crate::commands::exec) fn handle_address_read(
        &mut self,
        record: Option<&LockRecord>,
        renewals: &mut Renewals,
    ) -> bool {
        if !self.address_reader.has_moved(record) {
            return false;
        }
        if record.is_some_and(|record| record.revoked_ago.is_none()) {
            let (servers, action) = (&self.servers, &self.action);
            let text = format_args!(
                "{servers} now leads to another server or to older data; renewing {action} there"
            );
            self.report.info(EventKind::Disconnected, text);
        }
        self.database.reconnect();
        renewals.expedite(clock::now());
        true
    }

    /// Reports a failed renewal. `is_first` is false if the renewal before it failed as well.
    pub(in crate::commands::exec) fn report_failed_renewal(
        &self,
        failure: &Failure,
        is_first: bool,
    ) {
        let text = format_args!("cannot renew {}: {failure}; trying again", self.action);
        match is_first {
            true => self.report.info(EventKind::RenewalFailed, text),
            false => self.report.debug(EventKind::RenewalFailed, text),
        }
    }

    /// Reports that the database has lost the grant. `is_first` is false if this process has already tried to write the
    /// grant again.
    pub(in crate::commands::exec) fn report_lost_grant(&self, is_first: bool) {
        let text = lost_grant::reasserting(&self.action);
        match is_first {
            true => self.report.info(EventKind::GrantLost, text),
            false => self.report.debug(EventKind::GrantLost, text),
        }
    }

    /// Reports the first successful renewal after failures, of which the first was at `since`.
    pub(in crate::commands::exec) fn report_renewed_again(&self, since: BootInstant) {
        let ago = messages::duration(clock::now().since(since));
        let text = format_args!("{} is renewed again after {ago}", self.action);
        self.report.info(EventKind::Renewed, text);
    }

    /// Applies the outcome of a renewal, which took the time `took`, to the run. Reports a lost lease, each failed renewal,
    /// and the first success after a failure.
    pub(super) fn handle_renewal(
        &mut self,
        outcome: RenewalOutcome,
        took: Duration,
        run: &mut RunState<'_>,
    ) {
        match outcome {
            RenewalOutcome::Renewed(deadline, look) => {
                self.observers.renewed();
                self.address_reader.renewed();
                self.report_disconnected(run);
                self.deadline = Some(deadline);
                run.stopped_for = None;
                let (action, took) = (&self.action, messages::duration(took));
                let text = format_args!("renewed the lease of {action} in {took}");
                self.report.debug(EventKind::Renewal, text);
                let result = run.sessions.looked(look.map(|look| *look));
                self.handle_look(result, &mut run.renewals);
                run.send(SupervisorInput::Renewed(deadline));
                run.failure = None;
                if let Some(since) = run.failing_since.take() {
                    self.report_renewed_again(since);
                }
            }
            RenewalOutcome::Failed(failure) => {
                run.sessions.looked(None);
                self.observers.renewal_failed();
                self.report_disconnected(run);
                run.failing_since.get_or_insert_with(clock::now);
                self.report_failed_renewal(&failure, run.failure.is_none());
                run.failure = Some(failure);
            }
            RenewalOutcome::GrantLost { is_first } => {
                run.sessions.looked(None);
                self.observers.renewal_failed();
                run.disconnected_at = None;
                run.failing_since.get_or_insert_with(clock::now);
                self.report_lost_grant(is_first);
            }
            RenewalOutcome::Lost(loss, record) => {
                run.look_now();
                run.disconnected_at = None;
                run.send(SupervisorInput::Lost);
                run.loss = Some(loss);
                let (why, other) = match (loss, record.owner_id) {
                    (Loss::Revoked, _) => {
                        (messages::released(&record), messages::operator(&record))
                    }
                    (Loss::LostGrant, _) => (
                        lost_grant::not_reasserted(&self.action, &record),
                        messages::whose(&record),
                    ),
                    (Loss::TakenOver, Some(_)) => {
                        let is_early = clock::now() < run.renewals.deadline().kill;
                        let text = match is_early {
                            true => lost_grant::taken_early(&self.action, &record),
                            false => messages::holding(&self.action, &record),
                        };
                        (text, Some(&*record.holder.label))
                    }
                    (Loss::TakenOver, None) => {
                        ("its record was freed by another session".to_owned(), None)
                    }
                };
                self.lost(other, &format!("lost {}: {why}", self.action), "stopping");
            }
        }
    }
}
