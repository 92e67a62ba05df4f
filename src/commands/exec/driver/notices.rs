//! The reactions of the driver to the notices of the keeper: the command, the messages, the metrics and the hooks. Runs on
//! the main thread.

use std::time::Duration;

use super::{Driver, RunEnd};
use crate::commands::exec::exits::{not_granted, not_started};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::metrics::MetricsResult;
use crate::outcome::RunOutcome;
use crate::protocol::acquire::{Acquire, NotGranted};
use crate::protocol::keeper::{Notice, SessionOwner, SessionsNotEnded};
use crate::protocol::release::Released;
use crate::report::log::EventKind;
use crate::report::{lost_grant, messages};
use crate::store::session::ListedSession;
use crate::store::{Failure, LockRecord, Loss};
use crate::sys::clock;

impl Driver<'_> {
    /// Handles everything that the keeper reports.
    pub(super) fn handle_notices(&mut self) {
        while let Some(notice) = self.keeper.notice() {
            self.handle_notice(notice);
        }
    }

    fn handle_notice(&mut self, notice: Notice) {
        let now = clock::now();
        let waited = now.since(self.keeper.started());
        match notice {
            Notice::Waiting(failure) => {
                if let Some(acquire) = self.keeper.acquire() {
                    self.texts.waiting(acquire, failure.as_ref(), waited, now);
                }
            }
            Notice::NoQueueLock => {
                let acquire = self.keeper.acquire();
                let tries_again = acquire.is_some_and(Acquire::retries_queue_lock);
                self.texts.no_queue_lock(tries_again);
            }
            Notice::Silence(limit) => self.texts.silence(limit),
            Notice::Granted(grant) => self.granted(grant.token, waited),
            Notice::NotGranted(reason) => self.not_granted(reason, waited),
            Notice::SessionsLeft => {
                if let Some(wait) = self.keeper.session_wait() {
                    self.texts.sessions_left(wait, now);
                }
            }
            Notice::SessionsEnded(owner, killed) => self.texts.sessions_ended(owner, killed),
            Notice::SessionsNotEnded { owner, why, left } => {
                self.sessions_not_ended(owner, why, left.as_deref(), waited);
            }
            Notice::Executing(sessions) => self.texts.executing(&sessions),
            Notice::Ready => self.start_work(waited),
            Notice::Renewed {
                took,
                failing_since,
                problem,
            } => {
                self.renewed();
                self.texts.renewed(took, failing_since, now);
                if let Some(problem) = problem {
                    self.texts.tracking_problem(problem);
                }
            }
            Notice::RenewalFailed { failure, is_first } => {
                self.renewal_failed();
                self.texts.renewal_failed(&failure, is_first);
            }
            Notice::GrantLost { is_first } => {
                self.renewal_failed();
                self.texts.grant_lost(is_first);
            }
            Notice::Disconnected => {
                (self.texts).delay_disconnected(now + self.plan.keeper.timing.request_timeout);
            }
            Notice::Moved { is_revoked } => {
                let has_lease = self.keeper.grant().is_some();
                self.texts.moved(is_revoked, has_lease);
            }
            Notice::Lost(loss, record) => self.lease_lost(loss, &record, now),
            Notice::Released(released) => self.released(&released),
            Notice::NotReleased(failure) => self.not_released(failure.as_ref()),
        }
    }

    fn granted(&self, token: Token, waited: Duration) {
        self.report.granted(token);
        let (action, waited) = (&self.plan.contender.action, messages::duration(waited));
        let text = format_args!("acquired {action} in {waited} (token {token})");
        let has_reminded = self.report.has_reminded();
        self.report
            .milestone(EventKind::Granted, text, has_reminded);
    }

    fn not_granted(&mut self, reason: NotGranted, waited: Duration) {
        let latest = self.queue_reader.latest();
        let no_response = || self.events.no_response();
        let error = not_granted(reason, latest, no_response, waited, self.plan.conflict());
        self.end.get_or_insert(RunEnd::NotStarted(error));
    }

    fn sessions_not_ended(
        &mut self,
        owner: SessionOwner,
        why: SessionsNotEnded,
        left: Option<&ListedSession>,
        waited: Duration,
    ) {
        match owner {
            SessionOwner::OwnWork => self.texts.sessions_not_ended(&why),
            SessionOwner::EarlierRun => {
                let error = not_started(why, left, waited, self.plan.conflict());
                self.end.get_or_insert(RunEnd::NotStarted(error));
            }
        }
    }

    /// Moves the deadline of the command, and counts the renewal in the metrics of the run.
    fn renewed(&mut self) {
        if let (true, Some(deadline)) = (self.is_working(), self.keeper.deadline()) {
            self.work.renewed(deadline);
        }
        if self.work.has_started() {
            self.observers.renewed();
        }
    }

    /// Counts a failed renewal in the metrics of the run. Before the command starts, there is no run.
    fn renewal_failed(&mut self) {
        if self.work.has_started() {
            self.observers.renewal_failed();
        }
    }

    fn start_work(&mut self, waited: Duration) {
        let (Some(deadline), Some(grant)) = (self.keeper.deadline(), self.keeper.grant()) else {
            return;
        };
        self.report.finish();
        self.work.start(deadline, grant.token, waited);
        self.observers.granted(grant.token);
    }

    fn lease_lost(&mut self, loss: Loss, record: &LockRecord, now: BootInstant) {
        self.work.stop();
        let is_early = (self.keeper.deadline()).is_some_and(|deadline| now < deadline.kill);
        let (why, other) = self.texts.loss(loss, record, is_early);
        self.lost(other, &why, "stopping");
    }

    /// Reports that the lease is lost or will be lost. `other` is the label of the new holder or of the operator who
    /// revoked the lease. None if there is no such label.
    pub(super) fn lost(&mut self, other: Option<&str>, why: &str, doing: &str) {
        let text = format!("{why}; {doing} the command");
        let meta = EventKind::Lost.by(other);
        let status = RunOutcome::Lost.status();
        self.report.exit_status(meta, status, &text);
        let other = other.unwrap_or_default();
        self.observers.ended(MetricsResult::Lost, why, other);
    }

    /// Updates the outcome of the run according to the result of the release, and reports it.
    fn released(&mut self, released: &Released) {
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let outcome = run.outcome.after(released);
        let until = run.keep.map(|keep| clock::wall() + keep);
        if let (Released::Recorded | Released::Unrecorded(_), Some(until)) = (released, until) {
            self.observers.stays_held(until);
        }
        let action = &self.plan.contender.action;
        match released {
            Released::Recorded => self.texts.released(until),
            Released::Unrecorded(failure) => self.texts.unrecorded(failure),
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
                let text = format_args!("{}{consequence}", run.reason);
                self.report.error(kind, text);
            }
            // This loss has already been reported.
            Released::NotHolder(_) => {}
        }
        run.outcome = outcome;
    }

    /// Handles a release that has failed. A success that could not be recorded does not count. Otherwise the lease ends
    /// when it expires.
    fn not_released(&mut self, failure: Option<&Failure>) {
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let why = failure.map_or("no response from the server", |failure| &failure.message);
        if run.must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let action = &self.plan.contender.action;
            let text = format!(
                "{action} succeeded, but the success could not be recorded: {why}; it does not count as done"
            );
            let meta = EventKind::NotRecorded.into();
            self.report.exit_status(meta, run.outcome.status(), &text);
        } else if run.outcome.held_lease() {
            self.texts.not_released(why, self.plan.keeper.timing.ttl);
        }
    }
}
