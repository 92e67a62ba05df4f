//! The work of a hold: a program that reads the events of dlock, and ends the hold.

use std::time::Duration;

use super::events::HoldEvent;
use super::publication::Publication;
use crate::commands::exec::plan::RunPlan;
use crate::commands::exec::work::{Work, WorkEvent};
use crate::event::HoldInput;
use crate::exit::Status;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::outcome::RunOutcome;
use crate::process::supervisor::StopReason;
use crate::report::messages;
use crate::store::LockRecord;
use crate::sys::clock;
use crate::sys::input::InputKind;
use crate::sys::signal::{self, Signal};
use crate::sys::signal_name::describe;
use crate::sys::tree::ExitReason;

/// Shortest sleep before an instant that may have passed while an event was handled.
const TICK: Duration = Duration::from_millis(1);

/// The program for which the lock is held.
pub(super) struct HoldWork<'a> {
    plan: &'a RunPlan,
    publication: Publication<'a>,
    /// How the hold ends: if it is a pipe, a program may know the published deadline.
    input: InputKind,
    /// The latest deadline that was published. None before the start.
    published: Option<Deadline>,
    /// Time at which the hold ends because of `--max-runtime`. None if it does not.
    limit: Option<BootInstant>,
    /// Why the program has to stop. None while it may work.
    stopping: Option<Stopping>,
}

/// A program that has to stop.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    reason: StopReason,
    /// Time at which its work is over, even if it does not close stdin.
    until: BootInstant,
}

impl<'a> HoldWork<'a> {
    pub(super) fn new(plan: &'a RunPlan, publication: Publication<'a>, input: InputKind) -> Self {
        Self {
            plan,
            publication,
            input,
            published: None,
            limit: None,
            stopping: None,
        }
    }

    /// Tells the program to stop. It knows the published deadline, so its work may last until then.
    fn tell_to_stop(&mut self, reason: StopReason, why: &str, status: Status) {
        self.begin_to_stop(reason);
        self.publication.write(&HoldEvent::Lost {
            why,
            by: None,
            status: status.code(),
        });
    }

    fn begin_to_stop(&mut self, reason: StopReason) {
        self.publication.remove_file();
        let until = self.published.map_or(clock::now(), |it| it.kill);
        self.stopping.get_or_insert(Stopping { reason, until });
    }

    /// Returns the end of the hold.
    fn ended(&self) -> WorkEvent {
        let reason = self.stopping.map_or(StopReason::None, |it| it.reason);
        WorkEvent::Ended(ExitReason::Exited(0), reason)
    }

    fn limit_reason(&self) -> String {
        let limit = messages::duration(self.plan.max_runtime.unwrap_or_default());
        format!("{} was held for {limit}", self.plan.names)
    }
}

impl Work for HoldWork<'_> {
    fn waiting(&mut self, record: &LockRecord, ahead: u64, waited: Duration) {
        self.publication.waiting(record, ahead, waited);
    }

    fn start(&mut self, deadline: Deadline, grants: &[Grant], waited: Duration) {
        self.published = Some(deadline);
        self.limit = self.plan.max_runtime.map(|limit| clock::now() + limit);
        if !self.publication.granted(deadline, grants, waited) {
            self.stopping = Some(Stopping {
                reason: StopReason::None,
                until: clock::now(),
            });
        }
    }

    fn renewed(&mut self, deadline: Deadline) {
        if self.stopping.is_none() {
            self.published = Some(deadline);
            self.publication.renewed(deadline);
        }
    }

    fn renewal_failed(&mut self, why: &str) {
        if self.stopping.is_none() {
            self.publication.write(&HoldEvent::Failing { why });
        }
    }

    fn stop(&mut self) {
        self.begin_to_stop(StopReason::Lost);
    }

    /// A program has until the published deadline. Everybody else can only notice the end of this process.
    fn lost(&mut self, why: &str, by: Option<&str>, _doing: &str) -> (String, WorkEvent) {
        self.publication.write(&HoldEvent::Lost {
            why,
            by,
            status: RunOutcome::Lost.status().code(),
        });
        match self.input {
            InputKind::Pipe => ("the program has to stop".to_owned(), WorkEvent::None),
            InputKind::Terminal | InputKind::Other => {
                let names = &self.plan.names;
                let left = format!("{names} is free for others when its lease expires");
                let doing = "the hold ends".to_owned();
                (doing, WorkEvent::LeftBehind(left))
            }
        }
    }

    /// A program may work until the published deadline, so the lease is not released earlier, unless it closes stdin.
    fn signal(&mut self, signal: Signal) -> WorkEvent {
        if !signal::is_fatal(signal.number) {
            return WorkEvent::None;
        }
        if self.input != InputKind::Pipe {
            return self.ended();
        }
        if self.stopping.is_none() {
            let why = format!("dlock received {}", describe(signal.number));
            self.tell_to_stop(StopReason::None, &why, Status::OK);
        }
        WorkEvent::None
    }

    fn timers(&self, deadline: Deadline) -> Vec<BootInstant> {
        let soon = clock::now() + TICK;
        let timers = match self.stopping {
            Some(stopping) => vec![stopping.until],
            None => self.limit.into_iter().chain([deadline.term]).collect(),
        };
        timers.into_iter().map(|at| at.max(soon)).collect()
    }

    fn enforce(&mut self, deadline: Deadline) -> WorkEvent {
        let now = clock::now();
        match self.stopping {
            Some(stopping) if now >= stopping.until => self.ended(),
            None if now >= deadline.term => {
                self.begin_to_stop(StopReason::Expired);
                WorkEvent::Expired
            }
            None if self.limit.is_some_and(|limit| now >= limit) => {
                let why = self.limit_reason();
                self.tell_to_stop(StopReason::TimedOut, &why, RunOutcome::TimedOut.status());
                match self.input {
                    InputKind::Pipe => WorkEvent::None,
                    InputKind::Terminal | InputKind::Other => self.ended(),
                }
            }
            Some(_) | None => WorkEvent::None,
        }
    }

    fn input_ended(&mut self, input: HoldInput) -> WorkEvent {
        if input == HoldInput::Front {
            return WorkEvent::None;
        }
        self.publication.remove_file();
        self.ended()
    }

    fn reason(&self, _end: ExitReason, stop_reason: StopReason) -> String {
        match stop_reason {
            StopReason::TimedOut => self.limit_reason(),
            _ => "the hold has ended".to_owned(),
        }
    }

    /// A program that is told nothing about the release must not take it for confirmed.
    fn over(&mut self, is_released: bool) -> Option<Status> {
        self.publication.close(is_released);
        let is_unconfirmed = !is_released && self.stopping.is_none();
        is_unconfirmed.then_some(Status::UNAVAILABLE)
    }
}
