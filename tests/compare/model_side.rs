//! The model's side of a comparison: the model's server, and for each contender the state that decides which requests
//! it can send.

mod requests;

use dlock::lease::Token;
use dlock::lease::limit::Limit;
use dlock::store::operator::OperatorAction;
use dlock::store::{AcquireMode, Failure, FailureKind, QueueLock, Request, Response, Version};

pub(crate) use self::requests::OTHER_DATABASE;
use crate::model_rows::rows;
use crate::mutation::Variant;
use crate::observed::{Observed, ObservedResponse, WAITING, failed, response_text};
use crate::responses::{failure, interpret};
use crate::server::{Raw, Rules, SHARED, Server, Session, Stage, owner_id_in};
use crate::step::{CONTENDERS, Fault, FaultKind, RequestKind, Sequence, Step};
use crate::time::{Tick, ticks};

/// A step with all its values, such as the complete request. Owner ids, tokens and sessions are the model's numbers.
#[derive(Debug, Clone)]
pub(crate) enum ConcreteStep {
    Send {
        index: usize,
        request: Request,
        /// The limit of the lease of the owner id in the request.
        limit: Limit,
        fault: Option<Fault>,
        /// True if the request waits for the queue lock.
        waits: bool,
    },
    /// The server applies an operator request to the row if the row has this token. The flag is true if the holder's
    /// session is also ended.
    ApplyOperatorAction(u8, OperatorAction, bool),
    KillSession(usize),
    DropConnection(usize),
    NoticeDrop(usize),
    AdvanceTime(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Closed,
    Open,
    /// The server has ended the session. The contender has not detected this yet.
    EndedByServer,
}

struct Contender {
    queue_lock: QueueLock,
    connection: Connection,
    /// True if the session of a dropped connection still exists.
    has_lingering_session: bool,
    /// The request that waits for the queue lock. None if the contender does not wait.
    waiting: Option<Request>,
    token: u8,
    /// Number of the slot of the latest grant. Before the first grant, a number that no other contender has.
    slot: u32,
    last_read: Version,
}

pub(crate) struct ModelSide {
    server: Server,
    now: Tick,
    rules: Rules,
    variant: Variant,
    contenders: [Contender; CONTENDERS],
    /// True if the action has been granted at least once.
    was_granted: bool,
}

impl ModelSide {
    pub(crate) fn new(sequence: &Sequence, rules: Rules, variant: Variant) -> Self {
        let mut server = Server::new();
        server.start_statement(0, 0);
        for (index, limit) in sequence.limits.into_iter().enumerate() {
            server.set_limit(owner_id_of(index), limit);
        }
        Self {
            server,
            now: 0,
            rules,
            variant,
            contenders: std::array::from_fn(|index| Contender {
                queue_lock: match sequence.has_queue_lock[index] {
                    true => QueueLock::Available,
                    false => QueueLock::Unavailable,
                },
                connection: Connection::Open,
                has_lingering_session: false,
                waiting: None,
                token: 0,
                slot: owner_id_of(index).into(),
                last_read: Version {
                    token: Token(0),
                    renewals: 0,
                },
            }),
            was_granted: false,
        }
    }

    /// Makes a step. Returns the concrete step, and the responses and rows after it. Returns None if the current state
    /// does not allow the step.
    pub(crate) fn step(&mut self, step: Step) -> Option<(ConcreteStep, Observed)> {
        let mut operator_result = None;
        let mut responses = Vec::new();
        let concrete = match step {
            Step::Send(index, kind, fault) => {
                let (concrete, response) = self.send(index, kind, fault)?;
                responses.push(response);
                concrete
            }
            Step::Revoke { .. } | Step::Pause(_) | Step::Resume => {
                let (kind, is_stale, wakes) = match step {
                    Step::Pause(time) => (OperatorAction::Pause(ticks(time)), false, false),
                    Step::Revoke { stale, wakes } => (OperatorAction::Release, stale, wakes),
                    _ => (OperatorAction::Resume, false, false),
                };
                // The model's operator knows only the record.
                if self.server.row.owner_id == Some(SHARED) {
                    return None;
                }
                let token = self.server.row.token.checked_sub(u8::from(is_stale))?;
                operator_result = Some(self.apply_operator_action(token, kind, wakes));
                ConcreteStep::ApplyOperatorAction(token, kind, wakes)
            }
            Step::KillSession(index) => {
                if self.contenders[index].connection != Connection::Open {
                    return None;
                }
                self.server.end(Session::current(index));
                self.contenders[index].connection = Connection::EndedByServer;
                if self.contenders[index].waiting.take().is_some() {
                    self.contenders[index].connection = Connection::Closed;
                    responses.push((index, failed(FailureKind::Unknown), false));
                }
                ConcreteStep::KillSession(index)
            }
            Step::DropConnection(index) => {
                let contender = &mut self.contenders[index];
                if contender.connection == Connection::Closed || contender.waiting.is_some() {
                    return None;
                }
                if contender.connection == Connection::Open {
                    self.drop_connection(index);
                }
                self.contenders[index].connection = Connection::Closed;
                ConcreteStep::DropConnection(index)
            }
            Step::NoticeDrop(index) => {
                if !std::mem::take(&mut self.contenders[index].has_lingering_session) {
                    return None;
                }
                self.server.end(Session::dropped(index));
                ConcreteStep::NoticeDrop(index)
            }
            Step::AdvanceTime(count) => {
                self.now += count;
                ConcreteStep::AdvanceTime(count)
            }
        };
        responses.extend(self.run_woken_attempts());
        self.was_granted |= self.server.row.owner_id.is_some();
        let observed = Observed {
            responses,
            operator_result,
            rows: rows(&self.server, self.now),
        };
        Some((concrete, observed))
    }

    /// Sends a request from contender `index`, and executes its packets until the last packet, a fault or a wait.
    /// Returns None if the contender cannot send the request in the current state.
    fn send(
        &mut self,
        index: usize,
        kind: RequestKind,
        fault: Option<Fault>,
    ) -> Option<(ConcreteStep, ObservedResponse)> {
        let contender = &self.contenders[index];
        let is_wait = matches!(kind, RequestKind::WaitTurn(..));
        if contender.waiting.is_some() || is_wait && contender.queue_lock == QueueLock::Unavailable
        {
            return None;
        }
        let request = self.request(index, kind);
        let limit = self.server.limit_of(owner_id_in(&request));
        if self.is_race(index, &request) {
            return None;
        }
        // Before the first grant, no run exists that could be recorded, and a slot that was never granted has token 0.
        if let Request::Release(release) = &request
            && release.run.is_some()
            && (!self.was_granted || release.token == Some(Token(0)))
        {
            return None;
        }
        // dlock takes over only an exclusive lease.
        if let Request::TryAcquire(attempt) = &request
            && let AcquireMode::TakeOver { version, .. } = attempt.mode
            && self.server.row.owner_id == Some(SHARED)
            && version == self.server.row.version()
        {
            return None;
        }
        let connection = contender.connection;
        // If the look fails, dlock sends the renewal on a new connection. The model does not contain this.
        let looks = matches!(&request, Request::Renew(request)
            if request.look.as_ref().is_some_and(|look| !look.is_empty()));
        if looks && connection == Connection::EndedByServer {
            return None;
        }
        let is_attempt = matches!(request, Request::TryAcquire(_));
        let unsent = match (connection, &request) {
            (_, Request::HandOff(_)) if !limit.is_exclusive() => {
                Some(Ok(Response::NotHolder(None)))
            }
            (Connection::Closed, Request::HandOff(_)) => Some(Ok(Response::NotHolder(None))),
            (Connection::EndedByServer, _) => Some(Err(failure(FailureKind::Unknown))),
            _ => None,
        };
        let send = |request, fault, waits| ConcreteStep::Send {
            index,
            request,
            limit,
            fault,
            waits,
        };
        if let Some(outcome) = unsent {
            if outcome.is_err() {
                self.contenders[index].connection = Connection::Closed;
            }
            let response = (index, self.record_response(index, &outcome), is_attempt);
            return Some((send(request, None, false), response));
        }
        self.contenders[index].connection = Connection::Open;
        let busy = self.server.queue_lock.first();
        let is_busy = is_wait && busy.is_some_and(|other| *other != Session::current(index));
        let fault = fault.filter(|_| !is_busy);
        let (outcome, could_grant) = self.execute(index, &request, Stage::First, fault);
        if let Request::Renew(renewal) = &request
            && renewal.reassertion.is_some()
            && matches!(outcome, Some(Ok(Response::Renewed(_))))
        {
            self.contenders[index].token = rank(renewal.grant.token);
        }
        // The owner of the queue lock also waits if it lets another waiter pass.
        let waits = outcome.is_none();
        let response = if let Some(outcome) = outcome {
            self.record_response(index, &outcome)
        } else {
            self.contenders[index].waiting = Some(request.clone());
            WAITING.to_owned()
        };
        let concrete = send(request, fault.filter(|_| !waits), waits);
        Some((concrete, (index, response, could_grant)))
    }

    /// Executes the packets of `request`, starting with `stage`. The outcome is None if the request waits for the queue
    /// lock. The flag is true if one of the packets can grant the lease.
    fn execute(
        &mut self,
        index: usize,
        request: &Request,
        mut stage: Stage,
        fault: Option<Fault>,
    ) -> (Option<Result<Response, Failure>>, bool) {
        let mut could_grant = false;
        for packet in 0.. {
            could_grant |= match request {
                Request::WaitTurn(turn) => stage == Stage::HasQueueLock && turn.may_acquire,
                request => matches!(request, Request::TryAcquire(_)),
            };
            let kind = fault
                .filter(|fault| fault.packet == packet)
                .map(|fault| fault.kind);
            if let Some(FaultKind::Refused(code)) = kind {
                self.server.end(Session::current(index));
                self.contenders[index].connection = Connection::Closed;
                return (Some(Err(failure(kind_of(code)))), could_grant);
            }
            let session = Session::current(index);
            let mut execute =
                |stage| (self.server).execute(self.now, session, request, stage, self.rules);
            let mut raw = execute(stage);
            // The process list is read before the packet with the fault.
            if let Some(list @ Raw::Listed(_)) = raw {
                stage = list.next(request).expect("the renewal follows");
                raw = execute(stage);
            }
            let Some(raw) = raw else {
                return (None, could_grant);
            };
            if let Some(kind) = kind {
                self.drop_connection(index);
                let kind = match kind {
                    FaultKind::ErrorAfter(code) | FaultKind::Refused(code) => kind_of(code),
                    FaultKind::ResponseLost => FailureKind::Unknown,
                };
                return (Some(Err(failure(kind))), could_grant);
            }
            if let Some(next) = raw.next(request) {
                stage = next;
                continue;
            }
            let outcome = interpret(request, raw, self.variant);
            if outcome.is_err() {
                self.server.end(session);
                self.contenders[index].connection = Connection::Closed;
            }
            return (Some(outcome), could_grant);
        }
        unreachable!("a request has few packets")
    }

    /// Executes the attempts of all waiters that have acquired the queue lock, and returns the responses.
    fn run_woken_attempts(&mut self) -> Vec<ObservedResponse> {
        let mut responses = Vec::new();
        // A waiter that lets an earlier one pass wakes another one.
        while let Some((index, request)) = self.take_woken() {
            let (outcome, could_grant) = self.execute(index, &request, Stage::First, None);
            match outcome {
                Some(outcome) => {
                    let response = self.record_response(index, &outcome);
                    responses.push((index, response, could_grant));
                }
                // The waiter has let another one pass, and waits again.
                None => self.contenders[index].waiting = Some(request),
            }
        }
        responses.sort_by_key(|(index, ..)| *index);
        responses
    }

    /// Takes the request of a waiter that has acquired the queue lock. None if there is none.
    fn take_woken(&mut self) -> Option<(usize, Request)> {
        (0..CONTENDERS).find_map(|index| {
            let keeps_waiting = self.server.keeps_waiting(Session::current(index));
            let waiting = &mut self.contenders[index].waiting;
            let request = waiting.take_if(|_| !keeps_waiting);
            request.map(|request| (index, request))
        })
    }

    /// Returns true if a release would pass the queue lock to a waiter although the release needs another packet. The
    /// order of that packet and the waiter's attempt is not defined.
    fn is_race(&self, index: usize, request: &Request) -> bool {
        let anyone_waits = self.contenders.iter().any(|other| other.waiting.is_some());
        let session = Session::current(index);
        let mut server = self.server.clone();
        let mut raw = || server.execute(self.now, session, request, Stage::First, self.rules);
        anyone_waits
            && matches!(request, Request::Release(_))
            && raw().is_some_and(|raw| raw.next(request).is_some())
    }

    fn drop_connection(&mut self, index: usize) {
        self.server.drop_connection(index);
        self.contenders[index].connection = Connection::Closed;
        self.contenders[index].has_lingering_session = true;
    }

    fn apply_operator_action(
        &mut self,
        token: u8,
        kind: OperatorAction,
        wakes: bool,
    ) -> (bool, bool) {
        let done = self.server.apply_operator_action(self.now, token, kind);
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
            true => contender.has_lingering_session = false,
            false => contender.connection = Connection::EndedByServer,
        }
        (done, true)
    }

    /// Updates the state of a contender from a response. Returns the response with the model's numbers.
    fn record_response(&mut self, index: usize, outcome: &Result<Response, Failure>) -> String {
        let contender = &mut self.contenders[index];
        match outcome {
            Ok(Response::Granted(token, slot, _) | Response::AlreadyHeld(token, slot)) => {
                contender.token = rank(*token);
                contender.slot = *slot;
            }
            Ok(
                Response::NotAcquired(row, _) | Response::Enqueued(row, _) | Response::Lost(row),
            ) => {
                contender.last_read = row.lease.version;
            }
            _ => {}
        }
        response_text(outcome, rank)
    }
}

/// Returns the model's number for the owner id of contender `index`.
pub(crate) fn owner_id_of(index: usize) -> u8 {
    u8::try_from(index).expect("few contenders") + 1
}

fn rank(token: Token) -> u8 {
    u8::try_from(token.0).expect("few grants")
}

/// Returns the kind of failure that a contender reports for this server error.
fn kind_of(code: u16) -> FailureKind {
    match code {
        1205 | 1213 | 1317 => FailureKind::Conflict,
        1047 | 1290 => FailureKind::Unreachable,
        1105 => FailureKind::NoQueueLock,
        other => panic!("no sequence contains error {other}"),
    }
}
