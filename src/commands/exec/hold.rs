//! Holding: from the grant to the release, with the command in between.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::desk::{Desk, LONGEST_SLEEP};
use super::unstartable;
use crate::acquire::AcquiredLease;
use crate::event::Event;
use crate::exit::{Ending, Status};
use crate::lease::instant::{BootInstant, Deadline};
use crate::monitor::{LATE, Monitor, Order, ROUND, STUCK, Start, Word};
use crate::outcome::RunOutcome;
use crate::renew::{Life, Renewals, Verdict};
use crate::report::log::What;
use crate::report::words;
use crate::store::{Failure, Loss};
use crate::supervise::{Act, Blame, INT, KILL, TERM};
use crate::sys::clock;
use crate::sys::process::Unstartable;
use crate::sys::tree::{End, Tree};

/// Failing renewals: since when, and the last reason; and whether they are over.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<BootInstant>,
    last: Option<Failure>,
    /// How the lease was lost, if the server has told so.
    loss: Option<Loss>,
}

/// What is to be run, and how long it is trusted.
pub(super) struct Job {
    /// The command's name, for messages.
    pub(super) program: OsString,
    /// How long it may run.
    pub(super) max_runtime: Option<Duration>,
    /// What it changes to show that it is alive.
    pub(super) heartbeat_file: Option<PathBuf>,
}

/// A command under a lease, as the front sees it.
struct Progress<'a> {
    job: &'a Job,
    monitor: &'a Monitor,
    renewals: Renewals,
    trouble: Trouble,
    /// Whether the monitor has sent SIGKILL, be it with success or not.
    killed: bool,
    /// A process that does not die of it.
    stuck: Option<u32>,
    /// What a dead monitor left us to kill.
    orphans: Option<Orphans>,
}

impl Progress<'_> {
    fn why_not_renewed(&self) -> String {
        match (&self.trouble.last, &self.job.heartbeat_file) {
            (_, Some(file)) if self.renewals.is_silent() => {
                format!("{} does not change", file.display())
            }
            (Some(failure), _) => failure.to_string(),
            (None, _) => "no answer from the server".to_owned(),
        }
    }

    /// When the tree is dead or the monitor has failed.
    fn overdue_at(&self) -> BootInstant {
        self.renewals.deadline().kill + LATE
    }

    /// Whether the monitor has let the deadline pass and said nothing.
    fn is_overdue(&self, now: BootInstant) -> bool {
        now >= self.overdue_at() && !self.killed && self.orphans.is_none()
    }
}

/// The command's tree after the monitor's death.
struct Orphans {
    tree: Tree,
    complain_at: BootInstant,
}

/// Why a run is over.
enum Over {
    /// All of the tree is dead.
    Dead(End, Blame),
    /// There never was a command.
    Unstartable(Unstartable),
    /// We were told to leave although this process does not die.
    Left(u32),
}

/// How the command ended, in words.
fn ended(end: End) -> String {
    match end {
        End::Exited(code) => format!("the command exited with {code}"),
        End::Killed(signal) => format!("the command was killed by signal {signal}"),
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
        job: &Job,
        monitor: &Monitor,
    ) -> FinishedRun {
        let started = clock::now();
        let life = match job.heartbeat_file {
            Some(_) => Life::Awaited,
            None => Life::Assumed,
        };
        let renewals = Renewals::new(lease.grant, lease.gate, self.timing, lease.sent, life);
        monitor.order(Order::Start(Start {
            deadline: renewals.deadline(),
            limit: job.max_runtime.map(|limit| started + limit),
            token: lease.grant.token,
        }));
        self.news.granted(lease.grant.token);
        let mut run = Progress {
            job,
            monitor,
            renewals,
            trouble: Trouble::default(),
            killed: false,
            stuck: None,
            orphans: None,
        };
        let over = self.run(&mut run);
        let (outcome, reason) = match over {
            Over::Dead(end, blame) => {
                self.report.detail(What::Ended, ended(end));
                let reason = match blame {
                    Blame::Overran => self.overran(job),
                    _ => ended(end),
                };
                (RunOutcome::of(end, blame, run.trouble.loss), reason)
            }
            Over::Unstartable(why) => {
                let ending = unstartable(&job.program, &why);
                (RunOutcome::NeverRan(ending.status), ending.why)
            }
            Over::Left(pid) => {
                let why = format!("process {pid} is left behind alive; {} lapses", self.action);
                (RunOutcome::LeftBehind, why)
            }
        };
        FinishedRun {
            outcome,
            reason,
            took: clock::now().since(started),
            deadline: run.renewals.deadline(),
        }
    }

    /// The loop from the grant to the end of the tree.
    fn run(&mut self, run: &mut Progress<'_>) -> Over {
        loop {
            let now = clock::now();
            if let Some(question) = run.renewals.due(now) {
                self.ask(question);
            }
            let round = run.orphans.as_ref().map(|_| now + ROUND);
            let wake = [run.renewals.wake_at(), round, Some(run.overdue_at())];
            let until = wake.into_iter().flatten().filter(|wake| *wake > now).min();
            match self.event(until.unwrap_or(now + LONGEST_SLEEP)) {
                Some(Event::Signal(signal)) => match run.stuck {
                    Some(pid) if [INT, TERM].contains(&signal.number) => return Over::Left(pid),
                    _ => run.monitor.order(Order::Signal(signal)),
                },
                Some(Event::Reply(reply)) => {
                    let verdict = run.renewals.answered(clock::now(), *reply);
                    if let Some(order) = self.judge(verdict, &mut run.trouble) {
                        run.monitor.order(order);
                    }
                }
                Some(Event::Heartbeat) => run.renewals.beat(),
                Some(Event::HungUp) => {
                    let now = clock::now();
                    run.trouble.since.get_or_insert(now);
                    run.renewals.hasten(now);
                    self.report.notice(
                        What::Disconnected,
                        format_args!(
                            "the server has closed the connection of {}; connecting anew",
                            self.action
                        ),
                    );
                }
                Some(Event::Monitor(Word::Unstartable(errno))) => {
                    return Over::Unstartable(Unstartable::from_errno(errno));
                }
                Some(Event::Monitor(Word::Ended(end, blame))) => return Over::Dead(end, blame),
                Some(Event::Monitor(word)) => self.heard(word, run),
                // Only when there is no news: who was frozen reads first what happened meanwhile.
                None if run.is_overdue(clock::now()) => run.monitor.kill(),
                Some(Event::Hook(..) | Event::Metrics(_)) | None => {}
            }
            if self.have_orphans_died(run) {
                return Over::Dead(End::Killed(KILL), Blame::Unguarded);
            }
        }
    }

    /// Does a dead monitor's last duty: kills what it left.
    fn have_orphans_died(&mut self, run: &mut Progress<'_>) -> bool {
        let Some(orphans) = &mut run.orphans else {
            return false;
        };
        if orphans.tree.reap() {
            return true;
        }
        let alive = orphans.tree.kill_all();
        let now = clock::now();
        if let (true, Some(pid)) = (now >= orphans.complain_at, alive) {
            orphans.complain_at = now + STUCK;
            self.heard(Word::Stuck(pid), run);
        }
        false
    }

    /// Tells what the monitor did, and takes over from it when it is dead.
    fn heard(&mut self, word: Word, run: &mut Progress<'_>) {
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
                let text = format_args!("{why}; stopping the command");
                self.report.error(What::Lost, text);
                self.news.lost("", &why);
            }
            Word::Stopping(Blame::Overran) => {
                let text = format_args!("{}; stopping the command", self.overran(run.job));
                self.report.error(What::Stopping, text);
            }
            Word::Stuck(pid) => {
                run.stuck = Some(pid);
                self.report.error(
                    What::Stuck,
                    format_args!(
                        "process {pid} of the command does not die; {} is not released before it \
                         does",
                        self.action
                    ),
                );
            }
            Word::Gone => {
                let why = format!("the monitor of {} was killed", self.action);
                let text = format_args!("{why}; killing the command");
                self.report.error(What::Lost, text);
                self.news.lost("", &why);
                run.orphans = Some(Orphans {
                    tree: Tree::inherited(),
                    complain_at: clock::now() + STUCK,
                });
            }
            Word::Stopping(_) | Word::Unstartable(_) | Word::Ended(..) => {}
        }
    }

    /// Why a command is stopped that has run for as long as it may.
    fn overran(&self, job: &Job) -> String {
        let limit = words::duration(job.max_runtime.unwrap_or_default());
        format!("{} has run for {limit}", self.action)
    }

    /// What a renewal's verdict means for the command; failures are told when they begin and end.
    fn judge(&mut self, verdict: Verdict, trouble: &mut Trouble) -> Option<Order> {
        match verdict {
            Verdict::Renewed(deadline) => {
                self.news.renewed();
                if let Some(since) = trouble.since.take() {
                    let ago = words::duration(clock::now().since(since));
                    let text = format_args!("{} is renewed again after {ago}", self.action);
                    self.report.notice(What::Renewed, text);
                }
                trouble.last = None;
                Some(Order::Renewed(deadline))
            }
            Verdict::Failed(failure) => {
                self.news.renewal_failed();
                let text = format!("cannot renew {}: {failure}; trying again", self.action);
                trouble.since.get_or_insert_with(clock::now);
                if trouble.last.is_none() {
                    self.report.notice(What::RenewalFailed, text);
                } else {
                    self.report.detail(What::RenewalFailed, text);
                }
                trouble.last = Some(failure);
                None
            }
            Verdict::Lost(seen) => {
                let is_revoked = seen.broken_ago.is_some();
                trouble.loss = Some(match is_revoked {
                    true => Loss::Revoked,
                    false => Loss::TakenOver,
                });
                let (why, whose) = match seen.claim {
                    _ if is_revoked => (words::released(&seen), words::operator(&seen)),
                    Some(_) => (
                        words::holding(&self.action, &seen),
                        Some(&*seen.holder.label),
                    ),
                    None => ("its row was freed by somebody else".to_owned(), None),
                };
                let why = format!("lost {}: {why}", self.action);
                let text = format_args!("{why}; stopping the command");
                self.report.error(What::Lost.by(whose), text);
                self.news.lost(whose.unwrap_or_default(), &why);
                Some(Order::Lost)
            }
        }
    }
}
