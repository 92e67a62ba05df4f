//! The server's side of a comparison: contenders and an operator on a real server. An administrator's connection reads
//! the rows.

mod rows;
mod translation;

use std::thread;
use std::time::{Duration, Instant};

use dlock::lease::OwnerId;
use dlock::lease::action::Action;
use dlock::store::mysql::Database;
use dlock::store::operator::{OperatorRequest, OperatorResult};
use dlock::store::session::SessionNote;
use dlock::store::{
    Contender, DatabaseId, Holder, QueueEntry, QueueLock, Request, Response, Store, TimedResponse,
};
use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::servers::{self, SESSIONS};
use testkit::sql::Sql;

use crate::command_session;
use crate::model_side::ConcreteStep;
use crate::observed::{Observed, ObservedResponse, WAITING, response_text};
use crate::server::NUMBER_BYTE;
use crate::server_contender::{Rewrite, ServerContender, direct};
use crate::step::CONTENDERS;
use crate::time::{TTL, ticks};

/// Maximum time to wait for an effect that normally takes a few milliseconds.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(8);

pub(crate) struct ServerSide {
    admin: Conn,
    operator: Database,
    /// A session that renewals note as the session of a command, and its note. No contender kills it.
    command: (Conn, SessionNote),
    contenders: [ServerContender; CONTENDERS],
    contender: Contender,
    /// The identity of the server's database.
    database: DatabaseId,
    /// The number of the sequence. It is part of the owner ids and makes them unique.
    serial: u64,
    /// The tokens by rank. The first token, 0, belongs to a row whose action has never been granted.
    tokens: Vec<u64>,
    began: Instant,
    operator_count: u32,
}

impl ServerSide {
    pub(crate) fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        let mut operator = direct(database);
        operator.setup().expect("the tables can be created");
        let contender = contender("none".parse().expect("a name"));
        Self {
            admin: database.admin_conn(),
            command: command_session::open(database, &mut operator, &contender),
            contenders: [(); CONTENDERS].map(|()| ServerContender::new(database, rewrite)),
            database: database_id(&mut operator, &contender),
            operator,
            contender,
            serial: 0,
            tokens: Vec::new(),
            began: Instant::now(),
            operator_count: 0,
        }
    }

    /// Begins a sequence on a new action, and connects all contenders.
    pub(crate) fn begin(&mut self, serial: u64) {
        let name = format!("sequence {serial}");
        self.serial = serial;
        self.tokens = vec![0];
        self.contender = contender(name.parse().expect("a name"));
        self.admin
            .run(format!("INSERT INTO dlock_lock (action) VALUES ('{name}')"));
        for contender in &mut self.contenders {
            contender.connect(&self.contender);
        }
        self.began = Instant::now();
    }

    /// Returns true if the sequence took so long that its times, in ticks, may differ from the model's.
    pub(crate) fn is_late(&self) -> bool {
        self.began.elapsed() > ticks(1) / 2
    }

    /// Makes a step. If `expected` contains responses to other contenders, these contenders waited for the queue lock,
    /// and their responses are read too. An error is the reason why the comparison cannot continue.
    pub(crate) fn step(
        &mut self,
        step: &ConcreteStep,
        expected: &Observed,
    ) -> Result<Observed, String> {
        let mut responses = Vec::new();
        let mut operator_result = None;
        match step {
            ConcreteStep::Send {
                index,
                request,
                limit,
                fault,
                waits,
            } => {
                let request = self.translated(request);
                let contender = Contender {
                    limit: *limit,
                    ..self.contender.clone()
                };
                if *waits {
                    self.wait_for_queue_lock(*index, &request, &contender)?;
                    responses.push((*index, None));
                } else {
                    let sender = &mut self.contenders[*index];
                    let (response, ended) = sender.send(&contender, &request, *fault);
                    responses.push((*index, Some(response)));
                    self.wait_for_end(ended)?;
                }
            }
            ConcreteStep::ApplyOperatorAction(token, kind, wakes) => {
                // A second request with the same process id would count as a repetition of the first.
                self.operator_count += 1;
                let request = OperatorRequest {
                    slots: Vec::new(),
                    action: self.contender.action.clone(),
                    token: self.token(*token),
                    by: Holder {
                        pid: self.operator_count,
                        ..Holder::default()
                    },
                    kind: *kind,
                };
                let holder = self.session_of_row();
                let outcome = self.operator.apply_operator_request(&request, *wakes);
                operator_result = Some(match outcome.map_err(|failure| failure.to_string())? {
                    OperatorResult::Conflict => (false, false),
                    OperatorResult::Applied { woken } => (true, woken),
                });
                if let Some((_, true)) = operator_result {
                    self.wait_and_record_end(holder)?;
                }
            }
            ConcreteStep::KillSession(index) => {
                let session = self.contenders[*index]
                    .current()
                    .ok_or("there is no session")?;
                self.kill(session)?;
                if self.contenders[*index].is_waiting() {
                    responses.push((*index, self.contenders[*index].finish_waiting()));
                }
            }
            ConcreteStep::DropConnection(index) => {
                let ended = self.contenders[*index].drop_connection();
                self.wait_for_end(ended)?;
            }
            ConcreteStep::NoticeDrop(index) => {
                let ended = self.contenders[*index].notice_drop();
                self.wait_for_end(ended)?;
            }
            ConcreteStep::AdvanceTime(count) => self.advance_time(*count),
        }
        for (index, ..) in expected.responses.iter().skip(responses.len()) {
            responses.push((*index, self.contenders[*index].finish_waiting()));
        }
        // The rows are read before the responses are converted, because the rows define the ranks of new tokens.
        let rows = self.rows();
        let converted = responses
            .into_iter()
            .map(|(index, response)| self.observed_response(index, response.as_ref()));
        Ok(Observed {
            responses: converted.collect(),
            operator_result,
            rows,
        })
    }

    /// Ends all waits and lingering sessions of a sequence. The next sequence can then begin.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        for index in 0..CONTENDERS {
            if self.contenders[index].is_waiting() {
                if let Some(session) = self.contenders[index].waiting_session() {
                    self.kill(session)?;
                }
                self.contenders[index].finish_waiting();
            }
            let ended = self.contenders[index].notice_drop();
            self.wait_for_end(ended)?;
        }
        Ok(())
    }

    fn observed_response(
        &self,
        index: usize,
        response: Option<&TimedResponse>,
    ) -> ObservedResponse {
        match response {
            None => (index, WAITING.to_owned(), false),
            Some(response) => {
                let text = response_text(&response.outcome, |token| self.rank(token.0));
                (index, text, response.could_grant)
            }
        }
    }

    fn wait_for_queue_lock(
        &mut self,
        index: usize,
        request: &Request,
        contender: &Contender,
    ) -> Result<(), String> {
        self.contenders[index].start_waiting(contender, request);
        self.wait_until("the contender waits for the queue lock", |side| {
            let session = side.contenders[index].waiting_session().unwrap_or(0);
            let state =
                format!("SELECT id FROM {SESSIONS} AS s WHERE id={session} AND state='User lock'");
            side.admin.first::<u64>(&state).is_some()
        })
    }

    fn kill(&mut self, session: u64) -> Result<(), String> {
        let killed = self.admin.query_drop(format!("KILL {session}"));
        killed.map_err(|error| format!("KILL {session}: {error}"))?;
        self.wait_and_record_end(session)
    }

    fn wait_and_record_end(&mut self, session: u64) -> Result<(), String> {
        self.wait_for_end(Some(session))?;
        for contender in &mut self.contenders {
            contender.ended(session);
        }
        Ok(())
    }

    fn wait_for_end(&mut self, session: Option<u64>) -> Result<(), String> {
        let Some(session) = session else {
            return Ok(());
        };
        let query = format!("SELECT id FROM {SESSIONS} AS s WHERE id={session}");
        self.wait_until("the session ends", |side| {
            side.admin.first::<u64>(&query).is_none()
        })
    }

    fn wait_until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        while !condition(self) {
            if began.elapsed() > EFFECT_TIMEOUT {
                return Err(format!("timed out: {what}"));
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Moves all times of the action `count` ticks into the past.
    fn advance_time(&mut self, count: u8) {
        let by = format!("INTERVAL {} SECOND", ticks(count).as_secs());
        let action = self.contender.action.clone();
        let shift = |columns: &[&str]| {
            let shifted = columns.iter().map(|name| format!("{name}={name}-{by}"));
            shifted.collect::<Vec<_>>().join(",")
        };
        let lease = shift(&["acquired_at", "renewed_at", "expires_at", "released_at"]);
        let pause = shift(&["paused_until"]);
        let statement = format!("UPDATE dlock_lock SET {lease},{pause} WHERE action='{action}'");
        self.admin.run(statement);
        let statement = format!("UPDATE dlock_slot SET {lease} WHERE action='{action}'");
        self.admin.run(statement);
        // The start of the server does not move. An entry of a session that is older than the start belongs to a dead
        // waiter, so its time does not move either. Other rules use this time only for waiters that poll.
        let entries = shift(&["enqueued_at"]);
        self.admin.run(format!(
            "UPDATE dlock_waiter SET {entries},\
             last_seen_at=IF(polls=1,last_seen_at-{by},last_seen_at) WHERE action='{action}'"
        ));
    }

    fn session_of_row(&mut self) -> u64 {
        let action = &self.contender.action;
        let session = format!("SELECT session_id FROM dlock_lock WHERE action='{action}'");
        self.admin.first(&session).unwrap_or(0)
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        let mut owner_id = [0; NUMBER_BYTE + 1];
        owner_id[..8].copy_from_slice(&self.serial.to_be_bytes());
        owner_id[NUMBER_BYTE] = number;
        OwnerId::new(owner_id)
    }
}

/// Returns the identity of the database, as dlock's own code reads it.
fn database_id(own: &mut Database, contender: &Contender) -> DatabaseId {
    let entry = QueueEntry {
        owner_id: OwnerId::new([0; NUMBER_BYTE + 1]),
        queue_lock: QueueLock::Available,
    };
    let response = own.request(contender, &Request::GetWithQueue(entry));
    match response.outcome {
        Ok(Response::NotAcquired(_, queue)) => queue.database.expect("the database is read"),
        other => panic!("no record: {other:?}"),
    }
}

fn contender(action: Action) -> Contender {
    let holder = Holder {
        label: "a contender".to_owned(),
        ..Holder::default()
    };
    Contender {
        history: 100,
        ..Contender::without_command(action, holder, ticks(TTL))
    }
}
