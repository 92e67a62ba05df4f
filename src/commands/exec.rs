//! `dlock exec`: acquire, run the command, keep the lease, release.
//!
//! One loop on the main thread takes every event (signals, replies of the database thread, the end
//! of the command) and asks the pure state machines what to do: `acquire` until the grant, then
//! `renew` and `supervise` until the command is dead. Nothing in here waits for the server, so
//! deadlines and signals are served whatever the server does. The order at the end is fixed:
//! command dead, renewals over, release, exit.

use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;

use crate::acquire::{Acquire, Hold, Patience, Step};
use crate::cli::{ExecArgs, Wait};
use crate::clock_step::{self, ClockStep};
use crate::database::DatabaseThread;
use crate::event::Event;
use crate::exit::{Ending, Status};
use crate::lease::Claim;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::renew::{Renewals, Verdict};
use crate::report::{Report, words};
use crate::signals;
use crate::store::mysql::Database;
use crate::store::target::Target;
use crate::store::{
    Answer, Contender, Failure, FailureKind, Gate, Holder, Parting, Question, Reply,
};
use crate::supervise::{Act, Blame, Input, Supervisor};
use crate::sys::process::{Child, End, Startable, Unstartable, look_up};
use crate::sys::{clock, host, random, signal, terminal};

/// For giving back what may have been granted when we leave the line: whoever set a time limit or
/// sent a signal wants us gone within a tenth of a second.
const PARTING: Duration = Duration::from_millis(80);

/// From this age on, what was seen of a lock is told as the past.
const STALE: Duration = Duration::from_secs(2);

/// How often a waiter says whom it waits for, where it cannot rewrite its line.
const REMINDER: Duration = Duration::from_secs(10);

/// Pause before a failed release is tried again: enough for a server to come back, not so much
/// that the bounded time holds only a few tries.
const RELEASE_RETRY: Duration = Duration::from_millis(100);

/// Longest sleep of the loop: its timer stops while the machine sleeps, leases do not, so a
/// deadline that passed meanwhile is noticed within this time after waking up.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Runs the command under the lock.
///
/// # Errors
/// When the command never ran: it cannot be started, the lock could not be had, a signal came.
pub fn run(args: ExecArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let timing =
        Timing::new(args.ttl, args.grace).map_err(|why| Ending::new(Status::USAGE, why))?;
    let program = args.command.first().context("no command")?;
    look_up(program, std::env::var_os("PATH").as_deref())
        .map_err(|why| unstartable(program, &why))?;
    let patience = Patience {
        wait: match args.wait {
            _ if args.nonblock => Some(Duration::ZERO),
            Wait::Forever => None,
            Wait::AtMost(wait) => Some(wait),
        },
        reach: args.db_wait,
    };
    let contender = Contender {
        action: args.action,
        holder: holder(args.holder, args.note),
        ttl: timing.ttl,
    };
    let additions = [
        ("DLOCK_ACTION", contender.action.to_string()),
        ("DLOCK_HOLDER", contender.holder.label.clone()),
        (
            "DLOCK_TTL",
            humantime::format_duration(timing.ttl).to_string(),
        ),
    ];

    let claim = Claim::new(random::bytes().context("no random numbers")?);
    let shares_terminal = terminal::is_controlling();
    let (inbox, mask) = signal::open_inbox(shares_terminal).context("cannot take signals")?;
    let mut command = Startable::new(&args.command, &additions, mask, !shares_terminal)
        .context("cannot prepare the command")?;
    let (sender, events) = mpsc::channel();
    signals::start(inbox, sender.clone()).context("cannot start a thread")?;
    let mut line = Line {
        report,
        action: contender.action.clone(),
        timing,
        events,
        database: DatabaseThread::start(
            Database::new(target, timing.attempt, timing.ttl),
            contender,
            sender,
        )
        .context("cannot start a thread")?,
        asked_at: None,
        standing: false,
        clock: ClockStep::default(),
    };

    let acquire = Acquire::new(claim, timing, patience, clock::now());
    let outcome = match line.acquire(acquire, args.conflict_exit_code) {
        Err(ending) => Err(ending),
        Ok(hold) => {
            command.add("DLOCK_TOKEN", &hold.grant.token.to_string())?;
            report.finish();
            match Child::spawn(&command) {
                Ok(child) => Ok(line.hold(&child, &hold, shares_terminal)),
                Err(why) => {
                    line.release(hold.parting());
                    Err(unstartable(program, &why))
                }
            }
        }
    };
    report.finish();
    line.leave();
    Ok(outcome?)
}

fn holder(label: Option<String>, note: Option<String>) -> Holder {
    let (host, pid) = (host::name(), host::pid());
    Holder {
        label: label.unwrap_or_else(|| format!("{host}/{pid}")),
        host,
        pid,
        user: host::user(),
        note: note.unwrap_or_default(),
    }
}

fn unstartable(program: &OsString, why: &Unstartable) -> Ending {
    let program = program.to_string_lossy();
    match why {
        Unstartable::NotFound => Ending::new(
            Status::NOT_FOUND,
            format!("cannot run {program}: no such command"),
        ),
        Unstartable::NotExecutable(error) => Ending::new(
            Status::NOT_EXECUTABLE,
            format!("cannot run {program}: {error}"),
        ),
    }
}

/// Our place between the user, the server and the command.
struct Line<'a> {
    report: &'a Report,
    action: Action,
    timing: Timing,
    events: Receiver<Event>,
    database: DatabaseThread,
    /// When the open question was asked.
    asked_at: Option<BootInstant>,
    /// Whether the open question takes as long as the line does.
    standing: bool,
    clock: ClockStep,
}

impl Line<'_> {
    /// Stands in line until the lease is ours.
    fn acquire(&mut self, mut acquire: Acquire, conflict: u8) -> Result<Hold, Ending> {
        let mut talk = Talk {
            started: clock::now(),
            said_at: None,
            gate: Gate::Used,
        };
        let mut news: Option<Box<Reply>> = None;
        loop {
            let now = clock::now();
            let step = acquire.next(now);
            // Told once it is clear that we go on waiting: who gives up says why in one line.
            if let (Step::Ask(_) | Step::Wait(_), Some(reply)) = (&step, news.take()) {
                self.say_why_we_wait(&acquire, &reply, &mut talk);
            }
            let waited = || words::duration(now.since(talk.started));
            match step {
                Step::Ask(question) => {
                    self.ask(question);
                    self.standing = acquire.is_standing();
                }
                Step::Granted(hold) => {
                    self.report.detail(format_args!(
                        "{} is ours after {} (token {})",
                        self.action,
                        waited(),
                        hold.grant.token
                    ));
                    return Ok(hold);
                }
                Step::Held(seen, looked_at) => {
                    // Who stood at the gate has not looked since it came.
                    let held = match now.since(looked_at) < STALE {
                        true => words::holding(&self.action, &seen),
                        false => words::was_held(&self.action, &seen),
                    };
                    let why = format!("{held}; gave up after {}", waited());
                    self.give_up(&acquire);
                    return Err(Ending::new(Status::from_code(conflict), why));
                }
                Step::Unreachable(failure) => {
                    let cause = failure.map_or_else(
                        || "the server does not answer".to_owned(),
                        |failure| failure.message,
                    );
                    let why = format!("{cause}; gave up after {}", waited());
                    self.give_up(&acquire);
                    return Err(Ending::new(Status::UNAVAILABLE, why));
                }
                Step::Refused(failure) => {
                    self.give_up(&acquire);
                    return Err(Ending::new(failure.kind.status(), failure));
                }
                Step::Wait(until) => match self.event(until) {
                    Some(Event::Signal(signal)) if signal::is_deadly(signal.number) => {
                        self.give_up(&acquire);
                        return Err(Ending::new(
                            Status::from_signal(signal.number),
                            format!("signal {} while waiting for {}", signal.number, self.action),
                        ));
                    }
                    Some(Event::Reply(reply)) => {
                        acquire.answered(clock::now(), &reply);
                        news = Some(reply);
                    }
                    None if acquire.is_standing() => self.say_that_we_wait(&acquire, &mut talk),
                    Some(Event::Signal(_)) | None => {}
                },
            }
        }
    }

    /// Tells whom we wait for: at once, then now and again.
    fn say_why_we_wait(&self, acquire: &Acquire, reply: &Reply, talk: &mut Talk) {
        if acquire.gate() == Gate::Absent && talk.gate == Gate::Used {
            talk.gate = Gate::Absent;
            self.report.detail(format_args!(
                "named locks do not work on this server: waiting for {} by looking",
                self.action
            ));
        }
        let text = match (&reply.outcome, acquire.seen()) {
            // Told above, and not what anybody waits for.
            (Err(failure), _) if failure.kind == FailureKind::NoGate => return,
            (Err(failure), _) => {
                format!("waiting for {}: {failure}; trying again", self.action)
            }
            (Ok(Answer::Seen(..) | Answer::Queued(..)), Some((seen, ahead)))
                if seen.claim.is_some() =>
            {
                words::waiting(&self.action, seen, ahead)
            }
            _ => return,
        };
        self.remind(&text, talk);
    }

    /// Tells that we still wait, of which there is no news at the gate.
    fn say_that_we_wait(&self, acquire: &Acquire, talk: &mut Talk) {
        if let Some((seen, ahead)) = acquire.seen() {
            let waited = clock::now().since(talk.started);
            let text = words::still_waiting(&self.action, seen, ahead, waited);
            self.remind(&text, talk);
        }
    }

    fn remind(&self, text: &str, talk: &mut Talk) {
        let pause = match self.report.is_terminal() {
            true => LONGEST_SLEEP,
            false => REMINDER,
        };
        let now = clock::now();
        if talk.said_at.is_none_or(|said| now.since(said) >= pause) {
            talk.said_at = Some(now);
            self.report.progress(text);
        }
    }

    /// Gives up what is ours or may be without our knowing, if the server is quick about it.
    fn give_up(&mut self, acquire: &Acquire) {
        let Some(parting) = acquire.parting() else {
            return;
        };
        let until = clock::now() + PARTING;
        // A wait at the gate would go on; an attempt gets half of the time to be answered.
        let patience = if acquire.is_standing() {
            until - PARTING
        } else {
            until - PARTING / 2
        };
        self.ask(Question::Release(parting));
        if !self.answered_release(patience) {
            self.database.interrupt();
            self.answered_release(until);
        }
    }

    /// Whether the reply to a release came in time.
    fn answered_release(&mut self, until: BootInstant) -> bool {
        while clock::now() < until {
            if let Some(Event::Reply(reply)) = self.event(until)
                && matches!(reply.outcome, Ok(Answer::Released | Answer::NotOurs))
            {
                return true;
            }
        }
        false
    }

    /// Keeps the lease while the command runs, stops the command if that fails, and releases once
    /// it is dead.
    fn hold(&mut self, child: &Child, hold: &Hold, shares_terminal: bool) -> Status {
        let mut renewals = Renewals::new(hold.grant, hold.gate, self.timing, hold.sent);
        let mut supervisor =
            Supervisor::new(renewals.deadline(), self.timing.grace, shares_terminal);
        let mut trouble = Trouble::default();
        let end = loop {
            let now = clock::now();
            if let Some(question) = renewals.due(now) {
                self.ask(question);
            }
            self.step(child, &mut supervisor, Input::Tick, &trouble);
            let wake = [renewals.wake_at(), supervisor.wake_at()];
            let until = wake.into_iter().flatten().min();
            let input = match self.event(until.unwrap_or(now + LONGEST_SLEEP)) {
                Some(Event::Signal(signal)) if signal.number != signal::CHILD => {
                    Some(Input::Signal(signal))
                }
                Some(Event::Reply(reply)) => {
                    let verdict = renewals.answered(clock::now(), *reply);
                    self.judge(verdict, &mut trouble)
                }
                Some(Event::Signal(_)) | None => None,
            };
            if let Some(input) = input {
                self.step(child, &mut supervisor, input, &trouble);
            }
            if let Some(end) = child.ended() {
                break end;
            }
        };
        self.report.detail(match end {
            End::Exited(code) => format!("the command exited with {code}"),
            End::Killed(signal) => format!("the command was killed by signal {signal}"),
        });
        if supervisor.blame() != Blame::Lost {
            self.release(hold.parting());
        }
        supervisor.status(end)
    }

    /// What a renewal's verdict means for the command; failures are told when they begin and end.
    fn judge(&self, verdict: Verdict, trouble: &mut Trouble) -> Option<Input> {
        match verdict {
            Verdict::Renewed(deadline) => {
                if let Some(since) = trouble.since.take() {
                    let ago = words::duration(clock::now().since(since));
                    self.report
                        .notice(format_args!("{} is renewed again after {ago}", self.action));
                }
                trouble.last = None;
                Some(Input::Renewed(deadline))
            }
            Verdict::Failed(failure) => {
                let text = format!("cannot renew {}: {failure}; trying again", self.action);
                if trouble.since.is_none() {
                    trouble.since = Some(clock::now());
                    self.report.notice(text);
                } else {
                    self.report.detail(text);
                }
                trouble.last = Some(failure);
                None
            }
            Verdict::Lost(seen) => {
                self.report.error(format_args!(
                    "lost {}: {}; stopping the command",
                    self.action,
                    if seen.claim.is_some() {
                        words::holding(&self.action, &seen)
                    } else {
                        "its row was freed by somebody else".to_owned()
                    }
                ));
                Some(Input::Lost)
            }
        }
    }

    /// Lets the supervisor decide and sends what it says.
    fn step(&self, child: &Child, supervisor: &mut Supervisor, input: Input, trouble: &Trouble) {
        let before = supervisor.blame();
        let acts = supervisor.step(clock::now(), input);
        if before == Blame::Nobody && supervisor.blame() == Blame::Expired {
            let cause = trouble.last.as_ref().map_or_else(
                || "no answer from the server".to_owned(),
                ToString::to_string,
            );
            self.report.error(format_args!(
                "cannot keep {}: {cause}; stopping the command",
                self.action
            ));
        }
        for act in acts {
            match act {
                Act::Forward(signal) => {
                    self.report
                        .detail(format_args!("forwarding signal {signal}"));
                    child.forward(signal);
                }
                Act::Stop(signal) => {
                    self.report
                        .detail(format_args!("sending signal {signal} to the command"));
                    child.stop(signal);
                }
            }
        }
    }

    /// Gives the lease up, in bounded time. A failure is told and changes nothing else: the lease
    /// lapses by itself.
    fn release(&mut self, parting: Parting) {
        let question = || Question::Release(parting);
        let until = clock::now() + 2 * self.timing.attempt;
        let mut failure: Option<Failure> = None;
        self.ask(question());
        let mut again_at = None;
        while clock::now() < until {
            let Some(Event::Reply(reply)) = self.event(again_at.unwrap_or(until)) else {
                if again_at.take_if(|at| clock::now() >= *at).is_some() {
                    self.ask(question());
                }
                continue;
            };
            match reply.outcome {
                Ok(Answer::Released) => return,
                Ok(Answer::NotOurs) => {
                    // A release whose answer was lost looks like this when it is repeated.
                    if failure.is_none() {
                        self.report.notice(format_args!(
                            "{} was not ours any more at its release",
                            self.action
                        ));
                    }
                    return;
                }
                // A renewal that was still open.
                Ok(_) => {}
                Err(error) => {
                    failure = Some(error);
                    again_at = Some(clock::now() + RELEASE_RETRY);
                }
            }
        }
        let cause = failure.map_or_else(
            || "no answer from the server".to_owned(),
            |failure| failure.message,
        );
        self.report.notice(format_args!(
            "cannot release {}: {cause}; it lapses within {}",
            self.action,
            words::duration(self.timing.ttl)
        ));
    }

    fn ask(&mut self, question: Question) {
        self.asked_at.get_or_insert_with(clock::now);
        self.database.ask(question);
    }

    /// The next event, none at `until`. An open question that has used up its limits is broken off
    /// here: the driver's own limits count per system call and need never strike.
    fn event(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            let patience = 3 * self.timing.attempt;
            let overdue = match self.standing {
                true => None,
                false => self.asked_at.map(|asked| asked + patience),
            };
            if overdue.is_some_and(|overdue| now >= overdue) {
                self.database.interrupt();
                self.asked_at = Some(now);
                continue;
            }
            let wake = overdue.map_or(until, |overdue| overdue.min(until));
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            match self.events.recv_timeout(sleep) {
                Ok(Event::Reply(reply)) => {
                    self.asked_at = None;
                    self.standing = false;
                    self.notice_clock_step(&reply);
                    return Some(Event::Reply(reply));
                }
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    if clock::now() >= until || sleep == LONGEST_SLEEP {
                        return None;
                    }
                }
            }
        }
    }

    fn notice_clock_step(&mut self, reply: &Reply) {
        let (way, by) = match self.clock.observe(reply) {
            Some(clock_step::Step::Forward(by)) => ("forward", by),
            Some(clock_step::Step::Back(by)) => ("back", by),
            None => return,
        };
        self.report.notice(format_args!(
            "the server's clock was set {way} by {}; ages in dlock status are off by that",
            words::duration(by)
        ));
    }

    /// Ends the database thread, unless it is stuck: then the end of the process ends it.
    fn leave(self) {
        if self.asked_at.is_none() {
            self.database.stop();
        }
    }
}

/// What has been said while waiting.
#[derive(Debug)]
struct Talk {
    started: BootInstant,
    said_at: Option<BootInstant>,
    gate: Gate,
}

/// Failing renewals: since when, and the last reason.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<BootInstant>,
    last: Option<Failure>,
}
