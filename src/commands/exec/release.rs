//! Releases the lease and records the run, in bounded time. Runs on the main thread.

use std::time::Duration;

use super::event_loop::EventLoop;
use super::hold::FinishedRun;
use crate::cli::exec::ExecArgs;
use crate::event::Event;
use crate::outcome::RunOutcome;
use crate::protocol::acquire::AcquiredLease;
use crate::protocol::release::{ReleaseStep, Released, Releasing};
use crate::report::log::{EventKind, EventMeta, rfc3339};
use crate::report::{lost_grant, messages};
use crate::store::{Loss, ReleaseRequest, RunHistory};
use crate::sys::{clock, signal};

impl EventLoop<'_> {
    /// Releases the lease of a run whose process tree is dead. If a success must be recorded, dlock
    /// retries until the deadline of the lease, and at least for a short time. If the success still
    /// cannot be recorded, dlock changes the outcome. If no success must be recorded, dlock retries
    /// only for a short time. If the release still fails, the outcome does not change, and the lease
    /// ends when it expires.
    ///
    /// `clears_sessions` is true if no session of the command is left on the server.
    pub(super) fn release(
        &mut self,
        lease: &AcquiredLease,
        run: &mut FinishedRun,
        args: &ExecArgs,
        clears_sessions: bool,
    ) {
        if run.outcome == RunOutcome::LeftBehind {
            // Keep the lease, because a process of the command is still alive.
            return;
        }
        let must_record = self.once.is_some() && run.outcome == RunOutcome::Exited(0);
        let min_hold = args.once.min_hold.unwrap_or_default();
        let request = ReleaseRequest {
            has_entry: lease.has_entry,
            history: match args.history {
                0 => RunHistory::Skipped,
                _ => RunHistory::Written,
            },
            clears_sessions: clears_sessions && run.sessions.clears_record(),
            ..(run.outcome).request(lease.grant, run.renewals.queue_lock(), run.facts, min_hold)
        };
        // A hand-off would leave the noted sessions in the record, because the release of a lease that was handed off does
        // not change the row.
        let hands_off =
            self.once.is_none() && lease.is_awaited(run.facts.took) && !run.sessions.is_recorded();
        let mut releasing = Releasing::new(request, hands_off, clock::now());
        let soon = clock::now() + 2 * self.timing.request_timeout;
        let until = match must_record {
            true => run.renewals.deadline().kill.max(soon),
            false => soon,
        };
        while clock::now() < until {
            let step = match self.has_open_request() {
                // Wait for the response to an earlier request, normally a renewal.
                true => ReleaseStep::Wait(None),
                false => releasing.next(clock::now()),
            };
            let wake = match step {
                ReleaseStep::Send(request) => {
                    self.send(request);
                    None
                }
                ReleaseStep::Wait(wake) => wake,
                ReleaseStep::Finished(released) => {
                    let until = request.keep.map(|keep| clock::wall() + keep);
                    return self.released(run, &released, until, must_record);
                }
            };
            let is_in_flight = releasing.is_in_flight();
            match self.event(wake.map_or(until, |wake| wake.min(until))) {
                Some(Event::Response(response)) if is_in_flight => {
                    releasing.handle_response(clock::now(), &response);
                }
                Some(Event::Disconnected) => releasing.disconnected(clock::now()),
                Some(Event::Signal(signal))
                    if signal::is_fatal(signal.number) && clock::now() > soon =>
                {
                    break;
                }
                _ => {}
            }
        }
        let why = releasing
            .failure()
            .map_or("no response from the server", |failure| &failure.message);
        let action = &self.action;
        if must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let text = format!(
                "{action} succeeded, but the success could not be recorded: {why}; it does not count as done"
            );
            let meta = EventKind::NotRecorded.into();
            self.report.exit_status(meta, run.outcome.status(), &text);
        } else if run.outcome.held_lease() {
            let ttl = messages::duration(self.timing.ttl);
            let text = format_args!("cannot release {action}: {why}; it expires within {ttl}");
            self.report.info(EventKind::NotReleased, text);
        }
    }

    /// Updates the outcome of the run according to the result of the release, and reports the
    /// result. `until` is the time since 1970 until which a released lease stays held for `--min-hold`.
    fn released(
        &mut self,
        run: &mut FinishedRun,
        released: &Released,
        until: Option<Duration>,
        must_record: bool,
    ) {
        let outcome = run.outcome.after(released);
        if let (Released::Recorded | Released::Unrecorded(_), Some(until)) = (released, until) {
            self.observers.stays_held(until);
        }
        let action = &self.action;
        match released {
            Released::Recorded => {
                let text = match until {
                    Some(until) => format!(
                        "{action} stays held for --min-hold until {}",
                        rfc3339(until)
                    ),
                    None => format!("{action} is released"),
                };
                let meta = EventMeta::from(EventKind::Released).held_until(until);
                self.report.milestone(meta, text, false);
            }
            Released::Unrecorded(failure) => {
                let text = format_args!("this run of {action} is not in the history: {failure}");
                self.report.info(EventKind::NotRecorded, text);
            }
            Released::NotHolder(loss) if run.outcome != outcome => {
                run.reason = match loss {
                    Loss::Revoked => {
                        format!("{action} was released by an operator before the command had ended")
                    }
                    Loss::TakenOver => format!("{action} was lost before the command had ended"),
                    Loss::LostGrant => lost_grant::not_released(action),
                };
                let (kind, consequence) = match must_record {
                    true => (
                        EventKind::NotRecorded,
                        ", so its success does not count as done",
                    ),
                    false => (EventKind::NotReleased, ""),
                };
                self.report
                    .error(kind, format_args!("{}{consequence}", run.reason));
            }
            // This loss has already been reported.
            Released::NotHolder(_) => {}
        }
        run.outcome = outcome;
    }
}
