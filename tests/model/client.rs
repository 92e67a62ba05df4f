//! One client: its front, which runs the real [`Acquire`] and [`Renewals`], the connection between
//! it and the server, its monitor and the command.
//!
//! Nothing of the front is ever in a hurry, so that it may be stopped at any moment and for any
//! time. The monitor and the kernel are: what they have to do in a tick is done in that tick.

use std::sync::Arc;
use std::time::Duration;

use dlock::acquire::{Acquire, AcquiredLease, Step, WaitLimits};
use dlock::exit::Status;
use dlock::lease::timing::Timing;
use dlock::outcome::RunOutcome;
use dlock::releasing::{self, Released, Releasing};
use dlock::renew::{Life, Renewals, Verdict};
use dlock::store::{Answer, Loss, Question, Reply};
use dlock::supervise::{Act, Blame, Input};
use dlock::sys::tree::End;

use crate::monitor::Monitor;
use crate::replies::{interpret, reply};
use crate::server::{Raw, Stage, full};
use crate::time::{TTL, Tick, instant, ticks, timing};
use crate::variant::Variant;

const KILL: i32 = 9;

/// A question on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) question: Arc<Question>,
    /// Whether it is the first on its connection.
    pub(crate) moved: bool,
    /// How far it is.
    pub(crate) stage: Stage,
    sent: Tick,
    pub(crate) wire: Wire,
}

impl Asked {
    /// Whether it could do any harm if it were executed late: whether it is to change the row.
    pub(crate) fn may_be_late(&self) -> bool {
        match *self.question {
            Question::Attempt(_)
            | Question::Renew(..)
            | Question::HandOff(_)
            | Question::Release(_) => true,
            Question::Stand(_) => self.stage == Stage::AtGate,
            Question::Inspect(_) | Question::Queue(_) | Question::Look => false,
        }
    }
}

/// How far a question has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wire {
    /// Not executed.
    Request,
    /// Executed at this tick, with this outcome; nobody has read it.
    Reply(Raw, Tick),
}

/// Whether something is held up. What is over within a tick would be no more than another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Halt {
    /// No.
    None,
    /// Since this tick.
    Fresh,
    /// Since an earlier one, so that it may go on.
    Old,
}

/// A connection as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// Whether the server still has the session.
    pub(crate) alive: bool,
    /// Whether nothing gets through, either way.
    pub(crate) stalled: Halt,
    /// When the server last heard of it.
    pub(crate) heard: Tick,
    /// Whether a renewal by it was read back: from then on the row names it.
    pub(crate) trusted: bool,
    pub(crate) asked: Option<Asked>,
    /// Only where connections are kept: the question before, given up.
    pub(crate) stale: Option<Asked>,
}

/// What the process that talks to the server is at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Front {
    Unborn,
    Acquiring(Arc<Acquire>),
    /// The lease is ours, the monitor has not been told.
    Granted(AcquiredLease),
    Holding {
        renewals: Renewals,
        lease: AcquiredLease,
        loss: Option<Loss>,
    },
    Leaving {
        releasing: Releasing,
        outcome: RunOutcome,
        /// What it was told of the lease before.
        loss: Option<Loss>,
        /// Whether an operator had ended the lease.
        revoked: bool,
    },
    Over {
        released: bool,
    },
}

/// The command with its whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Unstarted,
    Running,
    /// Killed; dead when this tick is over.
    Dying,
    Ended,
}

/// A client and its present dlock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Which dlock of this client it is; with the client's number this makes the claim.
    pub(crate) life: u8,
    pub(crate) front: Front,
    /// Whether the front is stopped.
    pub(crate) paused: Halt,
    pub(crate) link: Option<Link>,
    /// A request on a connection that was given up: it may still arrive.
    pub(crate) late: Option<Asked>,
    /// Whether a renewal was executed late: it writes its own session into the row, until the next one.
    pub(crate) late_renewal: bool,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) command: Command,
    /// The token of a run that has just ended with 0.
    pub(crate) success: Option<u8>,
    /// Whether a run ended with 0 that was told lost or revoked, or is recorded as that.
    pub(crate) false_success: bool,
}

impl Client {
    pub(crate) const fn new() -> Self {
        Self {
            life: 0,
            front: Front::Unborn,
            paused: Halt::None,
            link: None,
            late: None,
            late_renewal: false,
            monitor: None,
            command: Command::Unstarted,
            success: None,
            false_success: false,
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.command, Command::Running | Command::Dying)
    }

    /// Whether the front waits for no reply.
    pub(crate) fn is_quiet(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.asked.is_none())
    }

    /// A new dlock begins to want the lease.
    pub(crate) fn begin(&mut self, now: Tick, number: usize) {
        self.life += 1;
        let claim = full(claim_of(number, self.life));
        let limits = WaitLimits {
            wait: None,
            connect: ticks(u8::MAX),
        };
        self.monitor = None;
        self.command = Command::Unstarted;
        let acquire = Acquire::new(claim, timing(), limits, instant(now));
        self.front = Front::Acquiring(Arc::new(acquire));
    }

    /// Whether the front has a step to make on its own account.
    pub(crate) fn has_to_act(&self, now: Tick, variant: Variant) -> bool {
        self.is_quiet()
            && match &self.front {
                Front::Unborn | Front::Granted(_) | Front::Over { .. } => false,
                _ => self.clone().act(now, variant),
            }
    }

    /// A step of the front on its own account; whether there was anything to do.
    pub(crate) fn act(&mut self, now: Tick, variant: Variant) -> bool {
        match &mut self.front {
            Front::Acquiring(acquire) => match Arc::make_mut(acquire).next(instant(now)) {
                Step::Ask(question) => self.ask(now, question),
                Step::Granted(lease) => self.front = Front::Granted(lease),
                Step::Wait(_) => return false,
                other => panic!("nobody is impatient here: {other:?}"),
            },
            Front::Holding { lease, loss, .. }
                if self.command == Command::Ended
                    || (variant == Variant::EarlyRelease
                        && self.monitor.is_some_and(|monitor| monitor.is_stopping())) =>
            {
                let (lease, loss) = (*lease, *loss);
                self.leave(now, lease, loss, variant);
            }
            Front::Holding { renewals, .. } => match renewals.due(instant(now)) {
                Some(question) => self.ask(now, question),
                None => return false,
            },
            Front::Leaving { releasing, .. } => match releasing.next(instant(now)) {
                releasing::Step::Ask(Question::HandOff(_)) if self.link.is_none() => {
                    // Nothing is sent: on a new session nobody would believe it.
                    let answer = reply(now, now, Ok(Answer::NotOurs(None)));
                    releasing.answered(instant(now), &answer);
                    self.act(now, variant);
                }
                releasing::Step::Ask(question) => self.ask(now, question),
                releasing::Step::Wait(_) => return false,
                releasing::Step::Over(released) => self.end(&released, variant),
            },
            Front::Unborn | Front::Granted(_) | Front::Over { .. } => return false,
        }
        true
    }

    /// The command is dead, or told to stop: the lease is given up.
    fn leave(&mut self, now: Tick, lease: AcquiredLease, loss: Option<Loss>, variant: Variant) {
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        let (end, blame) = match is_stopped && loss.is_none() {
            true => (End::Killed(KILL), Blame::Expired),
            // Whatever it was told, the command may have ended by itself at that moment.
            false => (End::Exited(0), Blame::Nobody),
        };
        let told = loss.filter(|_| variant != Variant::EndBelieved);
        let outcome = RunOutcome::of(end, blame, told);
        let parting = outcome.parting(&lease, Duration::ZERO, Duration::ZERO);
        self.front = Front::Leaving {
            releasing: Releasing::new(parting, true, instant(now)),
            outcome,
            loss,
            revoked: outcome == RunOutcome::Revoked,
        };
        self.act(now, variant);
    }

    /// The release is over, and with it this dlock.
    fn end(&mut self, released: &Released, variant: Variant) {
        if let Front::Leaving { outcome, loss, .. } = &self.front {
            let outcome = match variant {
                Variant::EndBelieved => *outcome,
                _ => outcome.after(released),
            };
            if outcome.status() == Status::OK {
                self.false_success |= loss.is_some();
                self.success = self.token();
            }
            let released = outcome.is_ours();
            self.front = Front::Over { released };
        }
    }

    fn ask(&mut self, now: Tick, question: Question) {
        let moved = self.link.is_none();
        let link = self.link.get_or_insert(Link {
            alive: true,
            stalled: Halt::None,
            heard: now,
            trusted: false,
            asked: None,
            stale: None,
        });
        link.asked = Some(Asked {
            question: Arc::new(question),
            moved,
            stage: Stage::First,
            sent: now,
            wire: Wire::Request,
        });
    }

    /// The monitor hears of the grant and starts the command, unless it is too late for that;
    /// whether it did.
    pub(crate) fn launch(&mut self, now: Tick, lease: AcquiredLease, variant: Variant) -> bool {
        let timing = model_timing(variant);
        let mut monitor = Monitor::new(timing.deadline(lease.sent));
        self.front = Front::Holding {
            renewals: Renewals::new(lease.grant, lease.gate, timing, lease.sent, Life::Assumed),
            lease,
            loss: None,
        };
        let late = !monitor.step(now, Input::Tick).is_empty();
        if late && variant != Variant::BlindStart {
            self.command = Command::Ended;
            return false;
        }
        self.monitor = Some(monitor);
        self.command = Command::Running;
        true
    }

    /// The front takes in the reply that has arrived.
    pub(crate) fn read(&mut self, now: Tick, variant: Variant) {
        let link = self.link.as_mut().expect("there is a reply");
        let mut asked = link.asked.take().expect("there is a question");
        let wire = match link.stale.take() {
            Some(stale) => {
                // Off by one from here on.
                link.stale = Some(asked.clone());
                stale.wire
            }
            None => asked.wire,
        };
        let Wire::Reply(raw, received) = wire else {
            panic!("there is a reply");
        };
        if let Some(next) = raw.next(&asked.question) {
            asked.stage = next;
            // Deadlines count from the packet that is answered.
            asked.sent = now;
            asked.wire = Wire::Request;
            link.asked = Some(asked);
            return;
        }
        let outcome = interpret(&asked.question, raw, variant);
        match &outcome {
            Err(_) => self.link = None,
            Ok(answer) => link.trusted |= matches!(answer, Answer::Renewed),
        }
        let sent = match variant {
            Variant::DeadlineFromReply => now,
            _ => asked.sent,
        };
        self.hear(now, reply(sent, received, outcome), variant);
    }

    /// Hands a reply or a failure to the machine that waits for it.
    pub(crate) fn hear(&mut self, now: Tick, reply: Reply, variant: Variant) {
        match &mut self.front {
            Front::Acquiring(acquire) => {
                Arc::make_mut(acquire).answered(instant(now), &reply);
                self.act(now, variant);
            }
            Front::Holding { renewals, loss, .. } => {
                let input = match renewals.answered(instant(now), reply) {
                    Verdict::Renewed(deadline) => Input::Renewed(deadline),
                    Verdict::Lost(how, _) => {
                        *loss = Some(how);
                        Input::Lost
                    }
                    Verdict::Failed(_) => return,
                };
                self.watch(now, input);
            }
            Front::Leaving { releasing, .. } => {
                // A renewal that was still open has its reply before the release is asked.
                if releasing.is_asked() {
                    releasing.answered(instant(now), &reply);
                }
                self.act(now, variant);
            }
            Front::Unborn | Front::Granted(_) | Front::Over { .. } => {
                panic!("nothing was asked")
            }
        }
    }

    /// The monitor decides.
    pub(crate) fn watch(&mut self, now: Tick, input: Input) {
        let (Some(monitor), Command::Running) = (&mut self.monitor, self.command) else {
            return;
        };
        if monitor.step(now, input).contains(&Act::Stop(KILL)) {
            self.command = Command::Dying;
        }
    }

    /// Whether the monitor has something to do in this tick.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.command == Command::Running
            && self.monitor.is_some_and(|monitor| {
                let wake = monitor.supervisor().wake_at();
                wake.is_some_and(|wake| wake <= instant(now))
            })
    }

    /// Forgets what makes no difference any more.
    pub(crate) fn forget(&mut self, now: Tick, ticked: bool) {
        if let Front::Acquiring(acquire) = &mut self.front {
            // What is shared with the state before has not changed.
            if ticked || Arc::get_mut(acquire).is_some() {
                Arc::make_mut(acquire).forget_past(instant(now));
            }
        }
        if let Front::Leaving { releasing, .. } = &mut self.front {
            releasing.forget_past(instant(now));
        }
        if let Some(link) = &mut self.link {
            let asked = link.asked.as_ref();
            if asked.is_some_and(|a| a.wire == Wire::Request) || now >= link.heard + TTL {
                link.heard = 0;
            }
            if let Some(asked) = &mut link.asked
                && !matches!(
                    *asked.question,
                    Question::Attempt(_) | Question::Renew(..) | Question::Stand(_)
                )
            {
                asked.sent = 0;
            }
        }
        if let Some(late) = &mut self.late {
            late.sent = 0;
        }
        if !self.is_running()
            && let Some(monitor) = &mut self.monitor
        {
            *monitor = Monitor::new(timing().deadline(instant(0)));
        }
    }

    /// Drops the connection; a request on it may still arrive.
    pub(crate) fn drop_link(&mut self) {
        if let Some(link) = self.link.take()
            && let Some(asked) = link.asked
            && link.alive
            && asked.wire == Wire::Request
            && asked.may_be_late()
        {
            self.late = Some(asked);
        }
    }

    /// Whether nothing has stopped the command, and nobody has told that the lease is lost.
    pub(crate) fn is_unharmed(&self) -> bool {
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        !is_stopped && !matches!(self.front, Front::Holding { loss: Some(_), .. })
    }

    /// The token of the lease that this dlock has or had.
    pub(crate) fn token(&self) -> Option<u8> {
        let token = match &self.front {
            Front::Granted(lease) | Front::Holding { lease, .. } => lease.grant.token,
            Front::Leaving { releasing, .. } => releasing.token()?,
            Front::Acquiring(_) | Front::Unborn | Front::Over { .. } => return None,
        };
        u8::try_from(token.0).ok()
    }

    /// The claim of the present dlock.
    pub(crate) fn claim(&self, number: usize) -> u8 {
        claim_of(number, self.life)
    }
}

fn claim_of(number: usize, life: u8) -> u8 {
    u8::try_from(number).expect("two clients") * 8 + life
}

fn model_timing(variant: Variant) -> Timing {
    match variant {
        Variant::NoMargin => Timing {
            margin: ticks(0),
            ..timing()
        },
        _ => timing(),
    }
}
