//! Holding: from the grant to the release, with the command in between. On the main thread.

use std::time::Duration;

use super::desk::{Desk, LONGEST_SLEEP};
use super::unstartable;
use crate::acquire::AcquiredLease;
use crate::cli::ExecArgs;
use crate::event::Event;
use crate::exit::{Ending, Status};
use crate::lease::instant::{BootInstant, Deadline};
use crate::metrics::Outcome;
use crate::monitor::{Killing, LATE, Monitor, Order, Start, Word};
use crate::outcome::RunOutcome;
use crate::renew::{Life, Renewals, Verdict};
use crate::report::log::What;
use crate::report::words;
use crate::store::{Failure, Loss};
use crate::supervise::{Act, Blame, INT, Input, KILL, TERM};
use crate::sys::clock;
use crate::sys::process::Unstartable;
use crate::sys::tree::{End, Tree};

/// A command under a lease, as the front sees it.
struct Progress<'a> {
    args: &'a ExecArgs,
    monitor: &'a Monitor,
    renewals: Renewals,
    /// Since when the lease has not been renewed as it should.
    failing_since: Option<BootInstant>,
    /// Why the last renewal failed, if it did.
    failure: Option<Failure>,
    /// How the lease was lost, if the server has told so.
    loss: Option<Loss>,
    /// Whether the monitor has sent SIGKILL, be it with success or not.
    killed: bool,
    /// A process that does not die of it.
    stuck: Option<u32>,
    /// What a dead monitor left us to kill.
    orphans: Option<(Tree, Killing)>,
}

impl Progress<'_> {
    fn order(&self, input: Input) {
        self.monitor.order(Order::Input(input));
    }

    fn why_not_renewed(&self) -> String {
        match (&self.failure, &self.args.heartbeat_file) {
            (_, Some(file)) if self.renewals.is_silent() => {
                format!("{} does not change", file.display())
            }
            (Some(failure), _) => failure.to_string(),
            (None, _) => "no answer from the server".to_owned(),
        }
    }

    /// When the monitor has let the deadline pass, if it has killed nothing by then.
    fn overdue_at(&self) -> Option<BootInstant> {
        let is_guarded = !self.killed && self.orphans.is_none();
        is_guarded.then(|| self.renewals.deadline().kill + LATE)
    }
}

/// A run that is over.
pub(super) struct FinishedRun {
    pub(super) outcome: RunOutcome,
    /// One line about it, for people.
    pub(super) reason: String,
    /// Time since the grant.
    pub(super) took: Duration,
    /// Until when the lease was ours, when last heard of.
    pub(super) deadline: Deadline,
}

impl FinishedRun {
    /// How dlock ends. What the command could not do is said at the very end.
    pub(super) fn result(self) -> Result<Status, Ending> {
        let status = self.outcome.status();
        match self.outcome {
            RunOutcome::NeverRan(_) | RunOutcome::LeftBehind => {
                Err(Ending::new(status, self.reason))
            }
            _ => Ok(status),
        }
    }
}

impl Desk<'_> {
    /// Has the command run and keeps the lease until all of its tree is dead, stopped if the lease
    /// cannot be kept.
    pub(super) fn supervise(
        &mut self,
        lease: &AcquiredLease,
        args: &ExecArgs,
        monitor: &Monitor,
    ) -> FinishedRun {
        let started = clock::now();
        let life = match args.heartbeat_file {
            Some(_) => Life::Awaited,
            None => Life::Assumed,
        };
        let renewals = Renewals::new(lease.grant, lease.gate, self.timing, lease.sent, life);
        monitor.order(Order::Start(Start {
            deadline: renewals.deadline(),
            limit: args.max_runtime.map(|limit| started + limit),
            token: lease.grant.token,
        }));
        self.news.granted(lease.grant.token);
        let mut run = Progress {
            args,
            monitor,
            renewals,
            failing_since: None,
            failure: None,
            loss: None,
            killed: false,
            stuck: None,
            orphans: None,
        };
        let (outcome, reason) = self.run(&mut run);
        FinishedRun {
            outcome,
            reason,
            took: clock::now().since(started),
            deadline: run.renewals.deadline(),
        }
    }

    /// The loop from the grant to the end of the tree. Returns how that came, also in words.
    fn run(&mut self, run: &mut Progress<'_>) -> (RunOutcome, String) {
        let mut round = None;
        loop {
            let now = clock::now();
            if let Some(question) = run.renewals.due(now) {
                self.ask(question);
            }
            let wake = [run.renewals.wake_at(), run.overdue_at(), round];
            let until = wake.into_iter().flatten().filter(|wake| *wake > now).min();
            match self.event(until.unwrap_or(now + LONGEST_SLEEP)) {
                Some(Event::Signal(signal)) => match run.stuck {
                    Some(pid) if [INT, TERM].contains(&signal.number) => {
                        let action = &self.action;
                        let why = format!(
                            "process {pid} is still alive and was left behind; {action} is free when its lease ends"
                        );
                        return (RunOutcome::LeftBehind, why);
                    }
                    _ => run.order(Input::Signal(signal)),
                },
                Some(Event::Reply(reply)) => {
                    let verdict = run.renewals.answered(clock::now(), *reply);
                    self.judge(verdict, run);
                }
                Some(Event::Heartbeat) => run.renewals.beat(),
                Some(Event::HungUp) => {
                    let now = clock::now();
                    run.failing_since.get_or_insert(now);
                    run.renewals.hasten(now);
                    let action = &self.action;
                    let text = format_args!(
                        "the server has closed the connection of {action}; reconnecting"
                    );
                    self.report.notice(What::Disconnected, text);
                }
                Some(Event::Monitor(word)) => {
                    if let Some(over) = self.heard(word, run) {
                        return over;
                    }
                }
                // Only when there is no news: who was frozen reads first what happened meanwhile.
                None if run.overdue_at().is_some_and(|at| clock::now() >= at) => {
                    run.monitor.kill();
                }
                Some(Event::Hook(..) | Event::Metrics(_)) | None => {}
            }
            if let Some((tree, killing)) = &mut run.orphans {
                // The last duty of the dead monitor.
                if tree.reap() {
                    return self.ended(End::Killed(KILL), Blame::Unguarded, run);
                }
                let (again, stuck) = killing.round(tree, clock::now());
                round = Some(again);
                if let Some(pid) = stuck {
                    self.stuck(pid, run);
                }
            }
        }
    }

    /// The outcome of a run whose command has ended and whose tree is dead.
    fn ended(&self, end: End, blame: Blame, run: &Progress<'_>) -> (RunOutcome, String) {
        let how = match end {
            End::Exited(code) => format!("the command exited with {code}"),
            End::Killed(signal) => format!("the command was killed by signal {signal}"),
        };
        self.report.detail(What::Ended, &how);
        let reason = match blame {
            Blame::Overran => self.overran(run.args),
            _ => how,
        };
        (RunOutcome::of(end, blame, run.loss), reason)
    }

    /// Tells what the monitor did, and takes over from it when it is dead. Returns what came of the run
    /// when it is over.
    fn heard(&mut self, word: Word, run: &mut Progress<'_>) -> Option<(RunOutcome, String)> {
        match word {
            Word::Sent(Act::Forward(signal)) => self
                .report
                .detail(What::Signal, format_args!("forwarded signal {signal}")),
            Word::Sent(Act::Stop(signal)) => {
                run.killed |= signal == KILL;
                let text = format_args!("sent signal {signal} to the command and all below it");
                self.report.detail(What::Signal, text);
            }
            Word::Stopping(Blame::Expired) => {
                let why = format!("cannot keep {}: {}", self.action, run.why_not_renewed());
                self.lost(None, &why, "stopping");
            }
            Word::Stopping(Blame::Overran) => {
                let text = format_args!("{}; stopping the command", self.overran(run.args));
                self.report.error(What::Stopping, text);
            }
            Word::Stopping(_) => {}
            Word::Stuck(pid) => self.stuck(pid, run),
            Word::Unstartable(errno) => {
                let ending = unstartable(&run.args.command, &Unstartable::from_errno(errno));
                return Some((RunOutcome::NeverRan(ending.status), ending.why));
            }
            Word::Ended(end, blame) => return Some(self.ended(end, blame, run)),
            Word::Gone => {
                let why = format!("the monitor of {} was killed", self.action);
                self.lost(None, &why, "killing");
                run.orphans = Some((Tree::inherited(), Killing::new(clock::now())));
            }
        }
        None
    }

    /// Tells that `pid` does not die.
    fn stuck(&self, pid: u32, run: &mut Progress<'_>) {
        run.stuck = Some(pid);
        let action = &self.action;
        let text = format_args!(
            "process {pid} of the command does not die; {action} is not released before it does"
        );
        self.report.error(What::Stuck, text);
    }

    /// Tells that the lease is lost or will be, to `whose` advantage if that is known.
    fn lost(&mut self, whose: Option<&str>, why: &str, doing: &str) {
        let text = format_args!("{why}; {doing} the command");
        self.report.error(What::Lost.by(whose), text);
        self.news
            .ended(Outcome::Lost, why, whose.unwrap_or_default());
    }

    /// Why a command is stopped that has run for as long as it may.
    fn overran(&self, args: &ExecArgs) -> String {
        let limit = words::duration(args.max_runtime.unwrap_or_default());
        format!("{} has run for {limit}", self.action)
    }

    /// What a renewal's verdict means for the command; failures are told when they begin and end.
    fn judge(&mut self, verdict: Verdict, run: &mut Progress<'_>) {
        match verdict {
            Verdict::Renewed(deadline) => {
                self.news.renewed();
                run.order(Input::Renewed(deadline));
                run.failure = None;
                if let Some(since) = run.failing_since.take() {
                    let ago = words::duration(clock::now().since(since));
                    let text = format_args!("{} is renewed again after {ago}", self.action);
                    self.report.notice(What::Renewed, text);
                }
            }
            Verdict::Failed(failure) => {
                self.news.renewal_failed();
                run.failing_since.get_or_insert_with(clock::now);
                let text = format!("cannot renew {}: {failure}; trying again", self.action);
                match run.failure.replace(failure) {
                    None => self.report.notice(What::RenewalFailed, text),
                    Some(_) => self.report.detail(What::RenewalFailed, text),
                }
            }
            Verdict::Lost(loss, seen) => {
                run.order(Input::Lost);
                run.loss = Some(loss);
                let (why, whose) = match (loss, seen.claim) {
                    (Loss::Revoked, _) => (words::released(&seen), words::operator(&seen)),
                    (Loss::TakenOver, Some(_)) => {
                        let whose = Some(&*seen.holder.label);
                        (words::holding(&self.action, &seen), whose)
                    }
                    (Loss::TakenOver, None) => {
                        ("its row was freed by somebody else".to_owned(), None)
                    }
                };
                self.lost(whose, &format!("lost {}: {why}", self.action), "stopping");
            }
        }
    }
}
