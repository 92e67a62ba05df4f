//! One client: its front, which runs the real [`Acquire`] and [`Renewals`], the connection between
//! it and the server, its monitor and the command.
//!
//! Nothing of the front is ever in a hurry, so that it may be stopped at any moment and for any
//! time. The monitor and the kernel are: what they have to do in a tick is done in that tick.

use std::sync::Arc;

use dlock::acquire::{Acquire, Hold, Patience, Step};
use dlock::lease::Claim;
use dlock::lease::timing::Timing;
use dlock::renew::{Life, Renewals, Verdict};
use dlock::store::{Answer, Parting, Question, Reply};
use dlock::supervise::{Act, Input};

use crate::monitor::Monitor;
use crate::replies::{interpret, reply};
use crate::server::{CLAIM, Raw};
use crate::time::{TTL, Tick, instant, ticks, timing};
use crate::variant::Variant;

const KILL: i32 = 9;

/// A question on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) question: Arc<Question>,
    /// Whether it is the first on its connection.
    pub(crate) moved: bool,
    /// Whether it is the attempt behind a wait at the gate, or the release behind a notice.
    pub(crate) second: bool,
    sent: Tick,
    pub(crate) wire: Wire,
}

impl Asked {
    /// Whether it could do any harm if it were executed late: whether it is to change the row.
    pub(crate) fn may_be_late(&self) -> bool {
        match *self.question {
            Question::Attempt(_) | Question::Renew(..) | Question::Release(_) => true,
            Question::Stand(_) => self.second,
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
    Granted(Hold),
    Holding {
        renewals: Renewals,
        parting: Parting,
        lost: bool,
    },
    Leaving(Parting),
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
    pub(crate) monitor: Option<Monitor>,
    pub(crate) command: Command,
}

impl Client {
    pub(crate) const fn new() -> Self {
        Self {
            life: 0,
            front: Front::Unborn,
            paused: Halt::None,
            link: None,
            late: None,
            monitor: None,
            command: Command::Unstarted,
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
        let mut claim = [0; CLAIM + 1];
        claim[CLAIM] = claim_of(number, self.life);
        let patience = Patience {
            wait: None,
            reach: ticks(u8::MAX),
        };
        self.monitor = None;
        self.command = Command::Unstarted;
        let acquire = Acquire::new(Claim::new(claim), timing(), patience, instant(now));
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
                Step::Granted(hold) => self.front = Front::Granted(hold),
                Step::Wait(_) => return false,
                other => panic!("nobody is impatient here: {other:?}"),
            },
            Front::Holding { lost: true, .. } if self.command == Command::Ended => {
                self.front = Front::Over { released: false };
            }
            Front::Holding { parting, .. } if self.command == Command::Ended => {
                let parting = *parting;
                self.front = Front::Leaving(parting);
                self.ask(now, Question::Release(parting));
            }
            Front::Holding { parting, .. }
                if variant == Variant::EarlyRelease
                    && self.monitor.is_some_and(|monitor| monitor.is_stopping()) =>
            {
                let parting = *parting;
                self.front = Front::Leaving(parting);
                self.ask(now, Question::Release(parting));
            }
            Front::Holding { renewals, .. } => match renewals.due(instant(now)) {
                Some(question) => self.ask(now, question),
                None => return false,
            },
            Front::Leaving(parting) => {
                let parting = *parting;
                self.ask(now, Question::Release(parting));
            }
            Front::Unborn | Front::Granted(_) | Front::Over { .. } => return false,
        }
        true
    }

    fn ask(&mut self, now: Tick, question: Question) {
        let moved = self.link.is_none();
        let link = self.link.get_or_insert(Link {
            alive: true,
            stalled: Halt::None,
            heard: now,
            asked: None,
            stale: None,
        });
        link.asked = Some(Asked {
            question: Arc::new(question),
            moved,
            second: false,
            sent: now,
            wire: Wire::Request,
        });
    }

    /// The monitor hears of the grant and starts the command, unless it is too late for that;
    /// whether it did.
    pub(crate) fn launch(&mut self, now: Tick, hold: Hold, variant: Variant) -> bool {
        let timing = model_timing(variant);
        let mut monitor = Monitor::new(timing.deadline(hold.sent));
        self.front = Front::Holding {
            renewals: Renewals::new(hold.grant, hold.gate, timing, hold.sent, Life::Assumed),
            parting: hold.parting(None, None),
            lost: false,
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
        let first = match (&*asked.question, raw) {
            (Question::Stand(_), Raw::AtGate) | (Question::Release(_), Raw::Noticed) => {
                !asked.second
            }
            _ => false,
        };
        if first {
            asked.second = true;
            asked.sent = now;
            asked.wire = Wire::Request;
            link.asked = Some(asked);
            return;
        }
        let outcome = interpret(&asked.question, raw, variant);
        if outcome.is_err() {
            self.link = None;
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
            Front::Holding {
                renewals,
                parting,
                lost,
            } => {
                let input = match renewals.answered(instant(now), reply) {
                    Verdict::Renewed(deadline) => Input::Renewed(deadline),
                    Verdict::Lost(seen) => {
                        match seen.broken_ago {
                            // The row is still ours to free.
                            Some(_) => parting.token = None,
                            None => *lost = true,
                        }
                        Input::Lost
                    }
                    Verdict::Failed(_) => return,
                };
                self.watch(now, input);
            }
            Front::Leaving(_) => {
                if let Ok(Answer::Released | Answer::NotOurs) = reply.outcome {
                    self.front = Front::Over { released: true };
                }
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
