//! The model's side of a sequence: its server, and the part of the contenders that decides what they send.

use dlock::lease::{Grant, Token};
use dlock::store::operator::OperatorAction;
use dlock::store::{
    AcquireMode, AcquireRequest, Failure, FailureKind, HistoryOutcome, QueueEntry, QueueLock,
    ReleaseRequest, Request, Response, RunRecord, Version, WaitRequest,
};
use std::time::Duration;

use crate::kept::rows;
use crate::mutation::Variant;
use crate::observed::{Heard, Observed, heard};
use crate::replies::{failure, interpret};
use crate::server::{Rules, Server, Session, Stage, full};
use crate::step::{Ask, CONTENDERS, Ending, Fault, FaultKind, Seen, Sequence, Step, Which};
use crate::time::{Tick, ticks};

/// Maximum time that a contender waits for the queue lock: longer than any wait that goes well.
const PATIENCE: Duration = Duration::from_secs(4);

/// A concrete step, in the model's numbers.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Ask {
        who: usize,
        request: Request,
        fault: Option<Fault>,
        /// True if the request waits for the queue lock.
        waits: bool,
    },
    /// An operator's action on the row with this token; the flag is true if it also ends the holder's session.
    Intervene(u8, OperatorAction, bool),
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
    /// The server has ended the session, and the contender does not know.
    Ended,
}

struct Contender {
    queue_lock: QueueLock,
    link: Link,
    /// True if the session of a dropped connection still exists.
    lingers: bool,
    /// The request that waits for the queue lock. None if there is none.
    waiting: Option<Request>,
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
    /// True if the action was ever granted.
    was_granted: bool,
}

impl Theory {
    pub(crate) fn new(sequence: &Sequence, rules: Rules, variant: Variant) -> Self {
        Self {
            server: Server::new(),
            now: 0,
            rules,
            variant,
            contenders: sequence.has_queue_lock.map(|has_queue_lock| Contender {
                queue_lock: if has_queue_lock {
                    QueueLock::Available
                } else {
                    QueueLock::Unavailable
                },
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

    /// Makes a step. Returns the concrete step and what can be observed after it; None if the step is not possible now.
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
                intervened = Some(self.intervene(shown, OperatorAction::Release, wakes));
                Move::Intervene(shown, OperatorAction::Release, wakes)
            }
            Step::Close(time) => {
                let (shown, kind) = (self.server.row.token, OperatorAction::Pause(ticks(time)));
                intervened = Some(self.intervene(shown, kind, false));
                Move::Intervene(shown, kind, false)
            }
            Step::Resume => {
                let shown = self.server.row.token;
                intervened = Some(self.intervene(shown, OperatorAction::Resume, false));
                Move::Intervene(shown, OperatorAction::Resume, false)
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
        self.was_granted |= self.server.row.owner_id.is_some();
        let observed = Observed {
            heard: replies,
            intervened,
            rows: rows(&self.server, self.now),
        };
        Some((it, observed))
    }

    /// Sends a request of contender `who`, and executes its packets up to a fault or a wait. Returns None if the
    /// contender cannot send it now.
    fn ask(
        &mut self,
        who: usize,
        ask: Ask,
        fault: Option<Fault>,
    ) -> Option<(Move, (usize, Heard, bool))> {
        let contender = &self.contenders[who];
        let is_stand = ask == Ask::Stand;
        if contender.waiting.is_some() || is_stand && contender.queue_lock == QueueLock::Unavailable
        {
            return None;
        }
        let request = self.request(who, ask);
        let records = matches!(&request, Request::Release(request) if request.run.is_some());
        // Without a grant there is no run to record.
        if self.is_race(who, &request) || records && !self.was_granted {
            return None;
        }
        let link = contender.link;
        let is_attempt = matches!(request, Request::TryAcquire(_));
        let unsent = match (link, &request) {
            (Link::Missing, Request::HandOff(_)) => Some(Ok(Response::NotHolder(None))),
            (Link::Ended, _) => Some(Err(failure(FailureKind::Unknown))),
            _ => None,
        };
        if let Some(outcome) = unsent {
            self.contenders[who].link = Link::Missing;
            let reply = (who, self.taken_in(who, &outcome), is_attempt);
            let it = Move::Ask {
                who,
                request,
                fault: None,
                waits: false,
            };
            return Some((it, reply));
        }
        self.contenders[who].link = Link::Up;
        let busy = self.server.queue_lock.first();
        let waits = is_stand && busy.is_some_and(|other| *other != Session::current(who));
        let fault = fault.filter(|_| !waits);
        let (outcome, could_grant) = self.carry_out(who, &request, Stage::First, fault);
        let reply = if let Some(outcome) = outcome {
            self.taken_in(who, &outcome)
        } else {
            self.contenders[who].waiting = Some(request.clone());
            Heard::Waits
        };
        let it = Move::Ask {
            who,
            request,
            fault,
            waits,
        };
        Some((it, (who, reply, could_grant)))
    }

    /// Executes the packets of `request` from `stage` on. The outcome is None if it waits for the queue lock. The flag
    /// is true if a packet was sent that can grant the lease.
    fn carry_out(
        &mut self,
        who: usize,
        request: &Request,
        mut stage: Stage,
        fault: Option<Fault>,
    ) -> (Option<Result<Response, Failure>>, bool) {
        let mut could_grant = false;
        for packet in 0.. {
            could_grant |=
                matches!(request, Request::TryAcquire(_)) || stage == Stage::HasQueueLock;
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
                .execute(self.now, session, request, stage, self.rules);
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
            match raw.next(request) {
                Some(next) => stage = next,
                None => return (Some(interpret(request, raw, self.variant)), could_grant),
            }
        }
        unreachable!("a request has few packets")
    }

    /// Executes the attempts of contenders that have got the queue lock, and returns the responses.
    fn woken(&mut self) -> Vec<(usize, Heard, bool)> {
        let mut replies = Vec::new();
        for who in 0..CONTENDERS {
            if self.server.keeps_waiting(Session::current(who)) {
                continue;
            }
            if let Some(request) = self.contenders[who].waiting.take() {
                let (outcome, could_grant) =
                    self.carry_out(who, &request, Stage::HasQueueLock, None);
                let outcome = outcome.expect("an attempt does not wait");
                replies.push((who, self.taken_in(who, &outcome), could_grant));
            }
        }
        replies
    }

    /// Returns true if a release would hand the queue lock to a waiter before the release is settled: the order of the
    /// release and the waiter's attempt is not defined then.
    fn is_race(&self, who: usize, request: &Request) -> bool {
        let anyone_waits = self.contenders.iter().any(|other| other.waiting.is_some());
        let session = Session::current(who);
        let mut server = self.server.clone();
        let mut raw = || server.execute(self.now, session, request, Stage::First, self.rules);
        anyone_waits
            && matches!(request, Request::Release(_))
            && raw().is_some_and(|raw| raw.next(request).is_some())
    }

    fn abandon(&mut self, who: usize) {
        self.server.abandon(who);
        self.contenders[who].link = Link::Missing;
        self.contenders[who].lingers = true;
    }

    fn intervene(&mut self, shown: u8, kind: OperatorAction, wakes: bool) -> (bool, bool) {
        let done = self.server.intervene(self.now, shown, kind);
        let row = &self.server.row;
        let holder = row.session.filter(|holder| {
            row.owner_id.is_some()
                && row.has_queue_lock
                && self.server.queue_lock.first() == Some(holder)
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

    /// Updates a contender from a response, and returns the response in the model's numbers.
    fn taken_in(&mut self, who: usize, outcome: &Result<Response, Failure>) -> Heard {
        let contender = &mut self.contenders[who];
        match outcome {
            Ok(Response::Granted(token) | Response::AlreadyHeld(token)) => {
                contender.token = rank(*token);
            }
            Ok(
                Response::NotAcquired(row, _) | Response::Enqueued(row, _) | Response::Lost(row),
            ) => {
                contender.seen = row.version;
            }
            _ => {}
        }
        heard(outcome, rank)
    }

    fn request(&self, who: usize, ask: Ask) -> Request {
        let contender = &self.contenders[who];
        let (owner_id, queue_lock) = (full(owner_id_of(who)), contender.queue_lock);
        let row = &self.server.row;
        let current = Token(row.token.into());
        let grant = |which| match which {
            Which::Own => (owner_id, Token(contender.token.into())),
            Which::OwnClaim => (owner_id, current),
            Which::Current => (row.owner_id.map_or(owner_id, full), current),
        };
        let entry = QueueEntry {
            owner_id,
            queue_lock,
        };
        let attempt = |mode| {
            Request::TryAcquire(AcquireRequest {
                owner_id,
                mode,
                queue_lock,
            })
        };
        match ask {
            Ask::First => attempt(AcquireMode::First),
            Ask::IfFree => attempt(AcquireMode::IfFree),
            Ask::TakeOver(seen) => {
                let version = match seen {
                    Seen::Before => contender.seen,
                    Seen::Now => Version {
                        token: current,
                        renewals: row.renewals.into(),
                    },
                };
                let fenced = false;
                attempt(AcquireMode::TakeOver { version, fenced })
            }
            Ask::Inspect => Request::GetWithQueue(entry),
            Ask::Queue => Request::Enqueue(entry),
            Ask::Stand => Request::WaitTurn(WaitRequest {
                owner_id,
                limit: Some(PATIENCE),
                prune_dead: false,
            }),
            Ask::Renew(which) => {
                let (owner_id, token) = grant(which);
                Request::Renew(Grant { owner_id, token }, queue_lock)
            }
            Ask::HandOff => {
                let (owner_id, token) = grant(Which::Own);
                Request::HandOff(Grant { owner_id, token })
            }
            Ask::Release {
                which,
                ending,
                queued,
                handed_off,
            } => {
                let shown = which.map(grant);
                Request::Release(ReleaseRequest {
                    owner_id: shown.map_or(owner_id, |(owner_id, _)| owner_id),
                    token: shown.map(|(_, token)| token),
                    queue_lock,
                    has_entry: queued,
                    keep: None,
                    run: ending.map(|ending| RunRecord {
                        outcome: match ending {
                            Ending::Exited => HistoryOutcome::Exited(0),
                            Ending::Killed => HistoryOutcome::Killed(9),
                        },
                        duration: Duration::from_secs(1),
                    }),
                    handed_off,
                })
            }
        }
    }
}

/// Returns the number of the owner id of contender `who`.
pub(crate) fn owner_id_of(who: usize) -> u8 {
    u8::try_from(who).expect("few contenders") + 1
}

/// Returns a token of the model as a number.
fn rank(token: Token) -> u8 {
    u8::try_from(token.0).expect("few grants")
}

/// Returns the kind of failure that a contender makes of a server error.
fn kind_of(code: u16) -> FailureKind {
    match code {
        1205 | 1213 | 1317 => FailureKind::Conflict,
        1047 | 1290 => FailureKind::Unreachable,
        1105 => FailureKind::NoQueueLock,
        other => panic!("{other} is not among the errors"),
    }
}
