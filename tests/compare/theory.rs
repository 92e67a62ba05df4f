//! The model's side of a sequence: its server, and as much of the contenders as decides what they send.

use dlock::lease::{Grant, Token};
use dlock::store::intervention::Deed;
use dlock::store::{
    Answer, Failure, FailureKind, Fate, Gate, Mode, Parting, Place, Question, Run, Turn, Version,
    Wish,
};
use std::time::Duration;

use crate::kept::rows;
use crate::observed::{Heard, Observed, heard};
use crate::replies::{failure, interpret};
use crate::server::{Rules, Server, Session, Stage, full};
use crate::step::{Ask, CONTENDERS, Ending, Fault, FaultKind, Seen, Sequence, Step, Which};
use crate::time::{Tick, ticks};
use crate::variant::Variant;

/// How long a contender waits at the gate: as long as nothing is wrong, for ever.
const PATIENCE: Duration = Duration::from_secs(4);

/// What a step comes to, in the model's numbers.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Ask {
        who: usize,
        question: Question,
        fault: Option<Fault>,
        /// Whether it waits at the gate.
        waits: bool,
    },
    /// An operator's change of the row with this token.
    Intervene(u8, Deed, bool),
    Kill(usize),
    Drop(usize),
    Notice(usize),
    Ticks(u8),
}

/// A contender's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Missing,
    Up,
    /// The server has ended it, and the contender does not know.
    Ended,
}

struct Contender {
    gate: Gate,
    link: Link,
    /// Whether there is a session of a connection that it has dropped.
    lingers: bool,
    /// The question with which it waits at the gate.
    waiting: Option<Question>,
    token: u8,
    seen: Version,
}

/// The model's side.
pub(crate) struct Theory {
    server: Server,
    now: Tick,
    rules: Rules,
    variant: Variant,
    contenders: [Contender; CONTENDERS],
    /// Whether anybody was ever granted the action.
    was_granted: bool,
}

impl Theory {
    pub(crate) fn new(sequence: &Sequence, rules: Rules, variant: Variant) -> Self {
        Self {
            server: Server::new(),
            now: 0,
            rules,
            variant,
            contenders: sequence.gated.map(|gated| Contender {
                gate: if gated { Gate::Used } else { Gate::Absent },
                link: Link::Up,
                lingers: false,
                waiting: None,
                token: 0,
                seen: Version {
                    token: Token(0),
                    renewals: 0,
                },
            }),
            was_granted: false,
        }
    }

    /// Makes a step, and tells what it comes to and what there is to observe; none if it makes no sense now.
    pub(crate) fn step(&mut self, step: Step) -> Option<(Move, Observed)> {
        let mut intervened = None;
        let mut replies = Vec::new();
        let it = match step {
            Step::Ask(who, ask, fault) => {
                let (it, reply) = self.ask(who, ask, fault)?;
                replies.push(reply);
                it
            }
            Step::Revoke { stale, wakes } => {
                let shown = self.server.row.token.checked_sub(u8::from(stale))?;
                intervened = Some(self.intervene(shown, Deed::Release, wakes));
                Move::Intervene(shown, Deed::Release, wakes)
            }
            Step::Close(time) => {
                let (shown, deed) = (self.server.row.token, Deed::Close(ticks(time)));
                intervened = Some(self.intervene(shown, deed, false));
                Move::Intervene(shown, deed, false)
            }
            Step::Reopen => {
                let shown = self.server.row.token;
                intervened = Some(self.intervene(shown, Deed::Reopen, false));
                Move::Intervene(shown, Deed::Reopen, false)
            }
            Step::Kill(who) => {
                if self.contenders[who].link != Link::Up {
                    return None;
                }
                self.server.end(Session::current(who));
                self.contenders[who].link = Link::Ended;
                if self.contenders[who].waiting.take().is_some() {
                    self.contenders[who].link = Link::Missing;
                    replies.push((who, Heard::Failed(FailureKind::Unknown), false));
                }
                Move::Kill(who)
            }
            Step::Drop(who) => {
                let contender = &mut self.contenders[who];
                if contender.link == Link::Missing || contender.waiting.is_some() {
                    return None;
                }
                if contender.link == Link::Up {
                    self.abandon(who);
                }
                self.contenders[who].link = Link::Missing;
                Move::Drop(who)
            }
            Step::Notice(who) => {
                if !std::mem::take(&mut self.contenders[who].lingers) {
                    return None;
                }
                self.server.end(Session::dropped(who));
                Move::Notice(who)
            }
            Step::Ticks(count) => {
                self.now += count;
                Move::Ticks(count)
            }
        };
        replies.extend(self.woken());
        self.was_granted |= self.server.row.claim.is_some();
        let observed = Observed {
            heard: replies,
            intervened,
            rows: rows(&self.server, self.now),
        };
        Some((it, observed))
    }

    /// The contender asks, and its question goes through all its packets up to a fault or a wait.
    fn ask(
        &mut self,
        who: usize,
        ask: Ask,
        fault: Option<Fault>,
    ) -> Option<(Move, (usize, Heard, bool))> {
        let contender = &self.contenders[who];
        let is_stand = ask == Ask::Stand;
        if contender.waiting.is_some() || is_stand && contender.gate == Gate::Absent {
            return None;
        }
        let question = self.question(who, ask);
        let records = matches!(&question, Question::Release(parting) if parting.run.is_some());
        // Without a grant there is no run to record.
        if self.is_race(who, &question) || records && !self.was_granted {
            return None;
        }
        let link = contender.link;
        let is_attempt = matches!(question, Question::Attempt(_));
        let unsent = match (link, &question) {
            (Link::Missing, Question::HandOff(_)) => Some(Ok(Answer::NotOurs(None))),
            (Link::Ended, _) => Some(Err(failure(FailureKind::Unknown))),
            _ => None,
        };
        if let Some(outcome) = unsent {
            self.contenders[who].link = Link::Missing;
            let reply = (who, self.taken_in(who, &outcome), is_attempt);
            let it = Move::Ask {
                who,
                question,
                fault: None,
                waits: false,
            };
            return Some((it, reply));
        }
        self.contenders[who].link = Link::Up;
        let busy = self.server.gate.first();
        let waits = is_stand && busy.is_some_and(|other| *other != Session::current(who));
        let fault = fault.filter(|_| !waits);
        let (outcome, could_grant) = self.carry_out(who, &question, Stage::First, fault);
        let reply = if let Some(outcome) = outcome {
            self.taken_in(who, &outcome)
        } else {
            self.contenders[who].waiting = Some(question.clone());
            Heard::Waits
        };
        let it = Move::Ask {
            who,
            question,
            fault,
            waits,
        };
        Some((it, (who, reply, could_grant)))
    }

    /// Executes the packets of `question` from `stage` on; no outcome if it waits at the gate. Also tells
    /// whether a packet was sent that can grant the lease.
    fn carry_out(
        &mut self,
        who: usize,
        question: &Question,
        mut stage: Stage,
        fault: Option<Fault>,
    ) -> (Option<Result<Answer, Failure>>, bool) {
        let mut could_grant = false;
        for packet in 0.. {
            could_grant |= matches!(question, Question::Attempt(_)) || stage == Stage::AtGate;
            let kind = fault
                .filter(|fault| fault.packet == packet)
                .map(|fault| fault.kind);
            if let Some(FaultKind::Refused(code)) = kind {
                self.server.end(Session::current(who));
                self.contenders[who].link = Link::Missing;
                return (Some(Err(failure(kind_of(code)))), could_grant);
            }
            let session = Session::current(who);
            let raw = self
                .server
                .execute(self.now, session, question, stage, self.rules);
            let Some(raw) = raw else {
                return (None, could_grant);
            };
            if let Some(kind) = kind {
                self.abandon(who);
                let kind = match kind {
                    FaultKind::ErrorAfter(code) | FaultKind::Refused(code) => kind_of(code),
                    FaultKind::ReplyLost => FailureKind::Unknown,
                };
                return (Some(Err(failure(kind))), could_grant);
            }
            match raw.next(question) {
                Some(next) => stage = next,
                None => return (Some(interpret(question, raw, self.variant)), could_grant),
            }
        }
        unreachable!("a question has few packets")
    }

    /// Contenders that have got the gate and answers to their attempts.
    fn woken(&mut self) -> Vec<(usize, Heard, bool)> {
        let mut replies = Vec::new();
        for who in 0..CONTENDERS {
            if self.server.keeps_waiting(Session::current(who)) {
                continue;
            }
            if let Some(question) = self.contenders[who].waiting.take() {
                let (outcome, could_grant) = self.carry_out(who, &question, Stage::AtGate, None);
                let outcome = outcome.expect("an attempt does not wait");
                replies.push((who, self.taken_in(who, &outcome), could_grant));
            }
        }
        replies
    }

    /// Whether a release would let a waiter through the gate before the release is settled: then nobody can
    /// tell which comes first.
    fn is_race(&self, who: usize, question: &Question) -> bool {
        let anyone_waits = self.contenders.iter().any(|other| other.waiting.is_some());
        let session = Session::current(who);
        let mut server = self.server.clone();
        let mut raw = || server.execute(self.now, session, question, Stage::First, self.rules);
        anyone_waits
            && matches!(question, Question::Release(_))
            && raw().is_some_and(|raw| raw.next(question).is_some())
    }

    fn abandon(&mut self, who: usize) {
        self.server.abandon(who);
        self.contenders[who].link = Link::Missing;
        self.contenders[who].lingers = true;
    }

    fn intervene(&mut self, shown: u8, deed: Deed, wakes: bool) -> (bool, bool) {
        let done = self.server.intervene(self.now, shown, deed);
        let row = &self.server.row;
        let holder = row.session.filter(|holder| {
            row.claim.is_some() && row.gated && self.server.gate.first() == Some(holder)
        });
        let Some(holder) = holder.filter(|_| done && wakes) else {
            return (done, false);
        };
        self.server.end(holder);
        let contender = &mut self.contenders[holder.client];
        match holder.dropped {
            true => contender.lingers = false,
            false => contender.link = Link::Ended,
        }
        (done, true)
    }

    /// Notes what a contender learns, and gives it back in the model's numbers.
    fn taken_in(&mut self, who: usize, outcome: &Result<Answer, Failure>) -> Heard {
        let contender = &mut self.contenders[who];
        match outcome {
            Ok(Answer::Granted(token) | Answer::AlreadyOurs(token)) => {
                contender.token = rank(*token);
            }
            Ok(Answer::Seen(row, _) | Answer::Queued(row, _) | Answer::Lost(row)) => {
                contender.seen = row.version;
            }
            _ => {}
        }
        heard(outcome, rank)
    }

    fn question(&self, who: usize, ask: Ask) -> Question {
        let contender = &self.contenders[who];
        let (claim, gate) = (full(claim_of(who)), contender.gate);
        let row = &self.server.row;
        let current = Token(row.token.into());
        let grant = |which| match which {
            Which::Own => (claim, Token(contender.token.into())),
            Which::OwnClaim => (claim, current),
            Which::Current => (row.claim.map_or(claim, full), current),
        };
        let place = Place { claim, gate };
        let attempt = |mode| Question::Attempt(Wish { claim, mode, gate });
        match ask {
            Ask::First => attempt(Mode::First),
            Ask::IfFree => attempt(Mode::IfFree),
            Ask::TakeOver(seen) => {
                let version = match seen {
                    Seen::Before => contender.seen,
                    Seen::Now => Version {
                        token: current,
                        renewals: row.renewals.into(),
                    },
                };
                let fenced = false;
                attempt(Mode::TakeOver { version, fenced })
            }
            Ask::Inspect => Question::Inspect(place),
            Ask::Queue => Question::Queue(place),
            Ask::Stand => Question::Stand(Turn {
                claim,
                patience: Some(PATIENCE),
                tidy: false,
            }),
            Ask::Renew(which) => {
                let (claim, token) = grant(which);
                Question::Renew(Grant { claim, token }, gate)
            }
            Ask::HandOff => {
                let (claim, token) = grant(Which::Own);
                Question::HandOff(Grant { claim, token })
            }
            Ask::Release {
                which,
                ending,
                queued,
                handed_off,
            } => {
                let shown = which.map(grant);
                Question::Release(Parting {
                    claim: shown.map_or(claim, |(claim, _)| claim),
                    token: shown.map(|(_, token)| token),
                    gate,
                    queued,
                    keep: None,
                    run: ending.map(|ending| Run {
                        fate: match ending {
                            Ending::Exited => Fate::Exited(0),
                            Ending::Killed => Fate::Killed(9),
                        },
                        took: Duration::from_secs(1),
                    }),
                    handed_off,
                })
            }
        }
    }
}

/// The number of the claim of contender `who`.
pub(crate) fn claim_of(who: usize) -> u8 {
    u8::try_from(who).expect("few contenders") + 1
}

/// The model's tokens are small.
fn rank(token: Token) -> u8 {
    u8::try_from(token.0).expect("few grants")
}

/// What an error means to a contender, by the server's reference.
fn kind_of(code: u16) -> FailureKind {
    match code {
        1205 | 1213 | 1317 => FailureKind::Conflict,
        1047 | 1290 => FailureKind::Unreachable,
        1105 => FailureKind::NoGate,
        other => panic!("{other} is not among the errors"),
    }
}
