//! The reactions of the driver to the notices of the keepers: the command, the messages, the metrics and the hooks. Runs on
//! the main thread.

use std::io;
use std::time::Duration;

use super::started::Started;
use super::{Driver, RunEnd};
use crate::commands::exec::exits::{not_granted, not_started};
use crate::commands::exec::nested;
use crate::commands::exec::run_lease::RunLease;
use crate::exit::{ExitError, Status};
use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::metrics::MetricsResult;
use crate::outcome::RunOutcome;
use crate::protocol::acquire::{Acquire, NotGranted};
use crate::protocol::keeper::{Keeper, Notice, SessionOwner, SessionsNotEnded};
use crate::protocol::release::Released;
use crate::report::lease::LeaseReport;
use crate::report::log::EventKind;
use crate::report::{lost_grant, messages};
use crate::store::session::ListedSession;
use crate::store::{Contender, Failure, LockRecord, Loss};
use crate::sys::clock;

impl Driver<'_> {
    /// Handles everything that the keepers report.
    pub(super) fn handle_notices(&mut self) {
        loop {
            while let Some((lease, notice)) = self.keepers.notice() {
                self.handle_notice(lease, notice);
            }
            if self.leases.len() == self.keepers.each().len() {
                return;
            }
            // A keeper has begun to acquire the next lease.
            if let Err(error) = self.start_lease() {
                let why = format!("cannot start a thread: {error}");
                return self.give_up(ExitError::new(Status::INTERNAL, why));
            }
        }
    }

    /// Starts the thread and the readers of the next lease.
    pub(in crate::commands::exec) fn start_lease(&mut self) -> io::Result<()> {
        self.report.begins_to_wait();
        let inside = match self.leases.last() {
            Some(before) => before.as_outer(),
            None => nested::outer_lease(&self.targets),
        };
        let contender = Contender {
            inside,
            ..self.plan.contenders[self.leases.len()].clone()
        };
        let timing = self.plan.keeper.timing;
        let texts = LeaseReport::new(
            self.report,
            contender.action.clone(),
            &self.plan.work,
            self.targets.to_string(),
        );
        let lease = RunLease::start(contender, &self.targets, timing, texts, &mut self.events)?;
        self.leases.push(lease);
        Ok(())
    }

    fn handle_notice(&mut self, number: usize, notice: Notice) {
        let now = clock::now();
        let waited = now.since(self.keepers.started());
        let (lease, keeper) = (&mut self.leases[number], &self.keepers.each()[number]);
        self.report
            .about_lease(&lease.contender.action, lease.token);
        match notice {
            Notice::Waiting(failure) => {
                if let Some(acquire) = keeper.acquire() {
                    lease.texts.waiting(acquire, failure.as_ref(), waited, now);
                    if failure.is_none()
                        && let Some((record, ahead, _)) = acquire.observed()
                    {
                        self.work.waiting(record, ahead, waited);
                    }
                }
            }
            Notice::NoQueueLock => {
                let acquire = keeper.acquire();
                let tries_again = acquire.is_some_and(Acquire::retries_queue_lock);
                lease.texts.no_queue_lock(tries_again);
            }
            Notice::Silence(limit) => lease.texts.silence(limit),
            Notice::Granted(grant) => self.granted(number, grant, waited),
            Notice::NotGranted(reason) => self.not_granted(number, reason, waited),
            Notice::SessionsLeft => {
                if let Some(wait) = keeper.session_wait() {
                    lease.texts.sessions_left(wait, now);
                }
            }
            Notice::SessionsEnded(owner, killed) => lease.texts.sessions_ended(owner, killed),
            Notice::SessionsNotEnded { owner, why, left } => {
                self.sessions_not_ended(number, owner, why, left.as_deref());
            }
            Notice::Executing(sessions) => lease.texts.executing(&sessions),
            Notice::Ready => self.start_work(),
            Notice::Renewed {
                took,
                failing_since,
                problem,
            } => {
                lease.texts.renewed(took, failing_since, now);
                if let Some(problem) = problem {
                    lease.texts.tracking_problem(problem);
                }
                self.renewed();
            }
            Notice::RenewalFailed { failure, is_first } => {
                lease.texts.renewal_failed(&failure, is_first);
                self.renewal_failed(&failure.to_string());
            }
            Notice::GrantLost { is_first } => {
                lease.texts.grant_lost(is_first);
                self.renewal_failed("the database has lost the grant");
            }
            Notice::Disconnected => {
                (lease.texts).delay_disconnected(now + self.plan.keeper.timing.request_timeout);
            }
            Notice::Moved { is_revoked } => {
                let has_lease = keeper.grant().is_some();
                lease.texts.moved(is_revoked, has_lease);
            }
            Notice::Lost(loss, record) => self.lease_lost(number, loss, &record, now),
            Notice::Released(released) => self.released(number, &released),
            Notice::NotReleased(failure) => self.not_released(number, failure.as_ref()),
        }
    }

    fn granted(&mut self, number: usize, grant: Grant, waited: Duration) {
        let Grant { token, slot, .. } = grant;
        let lease = &mut self.leases[number];
        lease.token = Some(token);
        let action = &lease.contender.action;
        self.report.about_lease(action, lease.token);
        let waited = messages::duration(waited);
        let slot = match lease.contender.limit.count() {
            Some(1) => String::new(),
            _ => format!(", slot {slot}"),
        };
        let text = format_args!("acquired {action} in {waited} (token {token}{slot})");
        let has_reminded = self.report.has_reminded();
        self.report
            .milestone(EventKind::Granted, text, has_reminded);
    }

    fn not_granted(&mut self, number: usize, reason: NotGranted, waited: Duration) {
        let lease = &self.leases[number];
        let latest = lease.queue_reader.latest();
        let no_response = || self.events.database(number).no_response();
        let conflict = (&lease.contender, self.plan.conflict_status);
        let error = not_granted(reason, latest, no_response, waited, conflict);
        self.end.get_or_insert(RunEnd::NotStarted(error));
    }

    fn sessions_not_ended(
        &mut self,
        number: usize,
        owner: SessionOwner,
        why: SessionsNotEnded,
        left: Option<&ListedSession>,
    ) {
        let lease = &self.leases[number];
        match owner {
            SessionOwner::OwnWork => lease.texts.sessions_not_ended(&why),
            SessionOwner::EarlierRun => {
                let waited = clock::now().since(self.keepers.started());
                let conflict = (&lease.contender, self.plan.conflict_status);
                let error = not_started(why, left, waited, conflict);
                self.end.get_or_insert(RunEnd::NotStarted(error));
            }
        }
    }

    /// Moves the deadline of the command, and counts the renewal in the metrics of the run.
    fn renewed(&mut self) {
        if let (true, Some(deadline)) = (self.is_working(), self.keepers.deadline()) {
            self.work.renewed(deadline);
            if let Some(started) = &mut self.started {
                started.renewed();
            }
        }
        if self.started.is_some() {
            self.observers.renewed();
        }
    }

    /// Counts a failed renewal in the metrics of the run. Before the command starts, there is no run.
    fn renewal_failed(&mut self, why: &str) {
        if self.started.is_some() {
            self.observers.renewal_failed();
            self.work.renewal_failed(why);
        }
    }

    /// Starts the command, because all leases are held.
    fn start_work(&mut self) {
        let Some(deadline) = self.keepers.deadline() else {
            return;
        };
        self.report.finish();
        let grants: Vec<_> = (self.keepers.each().iter())
            .filter_map(Keeper::grant)
            .collect();
        let now = clock::now();
        let waited = now.since(self.keepers.started());
        self.work.start(deadline, &grants, waited);
        self.started = Some(Started::new(now, waited));
        self.observers.granted(&grants);
    }

    fn lease_lost(&mut self, number: usize, loss: Loss, record: &LockRecord, now: BootInstant) {
        let lease = &mut self.leases[number];
        if self.started.is_none() {
            let action = &lease.contender.action;
            let why = format!("lost {action}: {}", messages::holding(action, record));
            let error = ExitError::new(RunOutcome::Lost.status(), why);
            self.end.get_or_insert(RunEnd::NotStarted(error));
            return;
        }
        self.work.stop();
        let is_early =
            (self.keepers.each()[number].deadline()).is_some_and(|deadline| now < deadline.kill);
        let (why, other) = lease.texts.loss(loss, record, is_early);
        self.lost(other, &why, "stopping");
    }

    /// Reports that the lease is lost or will be lost. `other` is the label of the new holder or of the operator who
    /// revoked the lease. None if there is no such label.
    pub(super) fn lost(&mut self, other: Option<&str>, why: &str, doing: &str) {
        let (doing, event) = self.work.lost(why, other, doing);
        let text = format!("{why}; {doing}");
        let meta = EventKind::Lost.by(other);
        let status = RunOutcome::Lost.status();
        self.report.exit_status(meta, status, &text);
        let other = other.unwrap_or_default();
        self.observers.ended(MetricsResult::Lost, why, other);
        self.work_event(event);
    }

    /// Updates the outcome of the run according to the result of the release, and reports it.
    fn released(&mut self, number: usize, released: &Released) {
        let lease = &self.leases[number];
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let outcome = run.outcome.after(released);
        let until = run.keep.map(|keep| clock::wall() + keep);
        if let (Released::Recorded | Released::Unrecorded(_), Some(until)) = (released, until) {
            self.observers.stays_held(until);
        }
        let action = &lease.contender.action;
        match released {
            Released::Recorded => lease.texts.released(until),
            Released::Unrecorded(failure) => lease.texts.unrecorded(failure),
            Released::NotHolder(loss) if run.outcome != outcome => {
                run.reason = match loss {
                    Loss::Revoked => {
                        format!("{action} was released by an operator before the command had ended")
                    }
                    Loss::TakenOver => format!("{action} was lost before the command had ended"),
                    Loss::LostGrant => lost_grant::not_released(action),
                };
                let (kind, consequence) = match run.must_record {
                    true => (
                        EventKind::NotRecorded,
                        ", so its success does not count as done",
                    ),
                    false => (EventKind::NotReleased, ""),
                };
                let text = format!("{}{consequence}", run.reason);
                (self.report).exit_status(kind.into(), outcome.status(), &text);
            }
            // This loss has already been reported.
            Released::NotHolder(_) => {}
        }
        run.outcome = outcome;
    }

    /// Handles a release that has failed. A success that could not be recorded does not count. Otherwise the lease ends
    /// when it expires.
    fn not_released(&mut self, number: usize, failure: Option<&Failure>) {
        let lease = &self.leases[number];
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let why = failure.map_or("no response from the server", |failure| &failure.message);
        run.is_released = false;
        if run.must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let action = &lease.contender.action;
            let text = format!(
                "{action} succeeded, but the success could not be recorded: {why}; it does not count as done"
            );
            let meta = EventKind::NotRecorded.into();
            self.report.exit_status(meta, run.outcome.status(), &text);
        } else if run.outcome.held_lease() {
            lease.texts.not_released(why, self.plan.keeper.timing.ttl);
        }
    }
}
