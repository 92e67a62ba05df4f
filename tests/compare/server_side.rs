//! The server's side of a comparison: contenders and an operator on a real server. An administrator's connection reads
//! the rows.

mod slots;

use std::thread;
use std::time::{Duration, Instant};

use dlock::lease::action::Action;
use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::mysql::Database;
use dlock::store::operator::{OperatorRequest, OperatorResult};
use dlock::store::session::{SLOTS_MARK, SessionNote};
use dlock::store::{
    Contender, DatabaseId, Holder, QueueEntry, QueueLock, Request, Response, Store, TimedResponse,
};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use testkit::servers;

use self::slots::parse_hex;
use crate::command_session::CommandSession;
use crate::model_side::{ConcreteStep, owner_id_of};
use crate::observed::{
    Observed, ObservedResponse, Rows, UNKNOWN, is_lease, observed_response, ticks_left,
};
use crate::operator::Operator;
use crate::server::{NUMBER_BYTE, Session};
use crate::server_contender::{Rewrite, ServerContender, SessionEffect, target};
use crate::step::CONTENDERS;
use crate::time::{TTL, ticks};
use crate::translation::translated;

/// Subquery that returns the sessions of a server and their states.
const SESSIONS: &str = "(SELECT id,state FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,state FROM performance_schema.processlist*/) AS p";

/// Maximum time to wait for an effect that normally takes a few milliseconds.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(8);

/// The values after a step, or the reason why the comparison cannot continue.
pub(crate) type Outcomes = Result<Observed, String>;

/// The contenders and the operator on a real server.
pub(crate) struct ServerSide {
    admin: Conn,
    operator: Operator,
    command: CommandSession,
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
        let operator = Operator::new(database);
        Self {
            admin: database.admin_conn(),
            operator,
            command: CommandSession::open(database, &contender("none".parse().expect("a name"))),
            contenders: [(); CONTENDERS].map(|()| ServerContender::new(database, rewrite)),
            contender: contender("none".parse().expect("a name")),
            database: database_id(database),
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
        self.execute_as_root(&format!(
            "INSERT INTO dlock_lock (action) VALUES ('{name}')"
        ));
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
    /// and their responses are read too.
    pub(crate) fn step(&mut self, step: &ConcreteStep, expected: &Observed) -> Outcomes {
        let mut responses = Vec::new();
        let mut operator_result = None;
        match step {
            ConcreteStep::Send {
                index,
                request,
                limit,
                waits: true,
                ..
            } => {
                self.wait_for_queue_lock(*index, request, *limit)?;
                responses.push((*index, None));
            }
            ConcreteStep::Send {
                index,
                request,
                limit,
                fault,
                ..
            } => {
                let request = self.translated(request);
                let contender = self.with_limit(*limit);
                let (response, after) = self.contenders[*index].send(&contender, &request, *fault);
                responses.push((*index, Some(response)));
                if let SessionEffect::Ended(session) | SessionEffect::Dropped(Some(session)) = after
                {
                    self.wait_for_end(session)?;
                }
            }
            ConcreteStep::ApplyOperatorAction(token, kind, wakes) => {
                let request = OperatorRequest {
                    slots: Vec::new(),
                    action: self.contender.action.clone(),
                    token: self.token(*token),
                    // A second request with the same process id would count as a repetition of the first.
                    by: Holder {
                        pid: self.next_operator_pid(),
                        ..Holder::default()
                    },
                    kind: *kind,
                };
                let holder = self.session_of_row();
                let outcome = self.operator.apply(&request, *wakes);
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
                self.execute_as_root(&format!("KILL {session}"));
                self.wait_and_record_end(session)?;
                if self.contenders[*index].is_waiting() {
                    responses.push((*index, self.contenders[*index].finish_waiting()));
                }
            }
            ConcreteStep::DropConnection(index) => {
                if let Some(session) = self.contenders[*index].drop_connection() {
                    self.wait_for_end(session)?;
                }
            }
            ConcreteStep::NoticeDrop(index) => {
                if let Some(session) = self.contenders[*index].notice_drop() {
                    self.wait_for_end(session)?;
                }
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
                    self.execute_as_root(&format!("KILL {session}"));
                    self.wait_and_record_end(session)?;
                }
                self.contenders[index].finish_waiting();
            }
            if let Some(session) = self.contenders[index].notice_drop() {
                self.wait_for_end(session)?;
            }
        }
        Ok(())
    }

    fn observed_response(
        &self,
        index: usize,
        response: Option<&TimedResponse>,
    ) -> (usize, ObservedResponse, bool) {
        match response {
            None => (index, ObservedResponse::Waiting, false),
            Some(response) => {
                let observed = observed_response(&response.outcome, |token| self.rank(token.0));
                (index, observed, response.could_grant)
            }
        }
    }

    /// Returns a contender whose leases have `limit`.
    fn with_limit(&self, limit: Limit) -> Contender {
        Contender {
            limit,
            ..self.contender.clone()
        }
    }

    fn wait_for_queue_lock(
        &mut self,
        index: usize,
        request: &Request,
        limit: Limit,
    ) -> Result<(), String> {
        let request = self.translated(request);
        let contender = self.with_limit(limit);
        self.contenders[index].start_waiting(&contender, &request);
        self.wait_until("the contender waits for the queue lock", |side| {
            let session = side.contenders[index].waiting_session().unwrap_or(0);
            let state =
                format!("SELECT id FROM {SESSIONS} WHERE id={session} AND state='User lock'");
            side.query_number(&state).is_some()
        })
    }

    /// Waits until a session has ended, and records its end.
    fn wait_and_record_end(&mut self, session: u64) -> Result<(), String> {
        self.wait_for_end(session)?;
        self.contenders
            .iter_mut()
            .for_each(|contender| contender.ended(session));
        Ok(())
    }

    fn wait_for_end(&mut self, session: u64) -> Result<(), String> {
        let query = format!("SELECT id FROM {SESSIONS} WHERE id={session}");
        self.wait_until("the session ends", |side| {
            side.query_number(&query).is_none()
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

    /// Returns a process id that no operator has used before.
    const fn next_operator_pid(&mut self) -> u32 {
        self.operator_count += 1;
        self.operator_count
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
        self.execute_as_root(&format!(
            "UPDATE dlock_lock SET {lease},{pause} WHERE action='{action}'"
        ));
        self.execute_as_root(&format!(
            "UPDATE dlock_slot SET {lease} WHERE action='{action}'"
        ));
        // The start of the server does not move. An entry of a session that is older than the start belongs to a dead
        // waiter, so its time does not move either. Other rules use this time only for waiters that poll.
        let entries = shift(&["enqueued_at"]);
        self.execute_as_root(&format!(
            "UPDATE dlock_waiter SET {entries},\
             last_seen_at=IF(polls=1,last_seen_at-{by},last_seen_at) WHERE action='{action}'"
        ));
    }

    fn session_of_row(&mut self) -> u64 {
        let action = &self.contender.action;
        let session = format!("SELECT session_id FROM dlock_lock WHERE action='{action}'");
        self.query_number(&session).unwrap_or(0)
    }

    fn rows(&mut self) -> Rows {
        let owner_ids: Vec<OwnerId> = (0..CONTENDERS)
            .map(|index| self.owner_id(owner_id_of(index)))
            .collect();
        let owners = |kind: &str| {
            let name = |owner_id: &OwnerId| format!("IS_USED_LOCK('{kind}:{}')", hex(*owner_id));
            owner_ids.iter().map(name).collect::<Vec<_>>().join(",")
        };
        let query = format!(
            "SELECT l.token,HEX(l.owner_id),l.renewals,l.has_queue_lock,l.session_id,l.revoked_at IS NOT NULL,\
             TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at),\
             COALESCE(TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.paused_until),0),\
             (SELECT GROUP_CONCAT(RIGHT(HEX(w.owner_id),2),':',w.session_id ORDER BY w.position) \
             FROM dlock_waiter AS w WHERE w.action=l.action),\
             (SELECT GROUP_CONCAT(r.token,':',r.outcome ORDER BY r.token) FROM dlock_history AS r \
             WHERE r.action=l.action AND r.kind=0),\
             IS_USED_LOCK(CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00',l.action),256),40))),l.sessions,{},{} \
             FROM dlock_lock AS l WHERE l.action='{}'",
            owners("dlock-handoff"),
            owners("dlock-holder"),
            self.contender.action,
        );
        let row: Option<Row> = self
            .admin
            .query_first(&query)
            .expect("the administrator can read the rows");
        let mut row = row.expect("the row exists");
        let token: u64 = column(&mut row, 0);
        let slots = self.slot_rows();
        self.add_tokens(&slots, token);
        let owner_id: Option<String> = column(&mut row, 1);
        let expires_in: Option<i64> = column(&mut row, 6);
        let paused: i64 = column(&mut row, 7);
        let queue: Option<String> = column(&mut row, 8);
        let runs: Option<String> = column(&mut row, 9);
        let queue_lock: Option<u64> = column(&mut row, 10);
        let note: Option<Vec<u8>> = column(&mut row, 11);
        let may_have_noted_slots =
            (note.as_ref()).is_some_and(|text| text.starts_with(SLOTS_MARK.as_bytes()));
        let note = note.and_then(|text| SessionNote::from_text(&text));
        let owned = (12..12 + 2 * CONTENDERS).map(|at| column(&mut row, at));
        let owned: Vec<Option<u64>> = owned.collect();
        let by_owner = |sessions: &[Option<u64>]| -> Vec<(u8, Session)> {
            let sessions = sessions.iter().enumerate();
            let named = |(index, id): (usize, &Option<u64>)| {
                let session = self.session(*id).unwrap_or(foreign_session());
                id.map(|_| (owner_id_of(index), session))
            };
            sessions.filter_map(named).collect()
        };
        let pairs = |text: Option<String>| -> Vec<(String, String)> {
            let text = text.unwrap_or_default();
            let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
            pairs
                .map(|(first, second)| (first.into(), second.into()))
                .collect()
        };
        let decimal = |text: &str| text.parse::<u64>().unwrap_or(0);
        let owner_id = owner_id.as_deref().map(parse_hex);
        Rows {
            owner_id,
            token: self.rank(token),
            renewals: column(&mut row, 2),
            has_queue_lock: column::<u8>(&mut row, 3) == 1,
            session: self.session(Some(column(&mut row, 4))),
            revoked: column::<u8>(&mut row, 5) == 1,
            expires_in: expires_in.filter(|_| is_lease(owner_id)).map(ticks_left),
            paused: ticks_left(paused).max(0),
            note: note.map(|note| self.rank(note.token.0)),
            may_have_noted_slots,
            slots: slots.into_iter().map(|slot| self.slot_row(slot)).collect(),
            queue: pairs(queue)
                .iter()
                .map(|(owner_id, session)| {
                    (parse_hex(owner_id), self.session(Some(decimal(session))))
                })
                .collect(),
            runs: pairs(runs)
                .into_iter()
                .map(|(token, run_end)| (self.rank(decimal(&token)), run_end))
                .collect(),
            queue_lock: self
                .session(queue_lock)
                .or(queue_lock.map(|_| foreign_session())),
            handed_off: by_owner(&owned[..CONTENDERS]),
            holder_locks: by_owner(&owned[CONTENDERS..]),
        }
    }

    /// Returns the model's session for the session `id`. None if no contender has this session.
    fn session(&self, id: Option<u64>) -> Option<Session> {
        self.contenders
            .iter()
            .enumerate()
            .find_map(|(index, contender)| match id {
                None | Some(0) => None,
                id if id == contender.current() => Some(Session::current(index)),
                id if id == contender.dropped() => Some(Session::dropped(index)),
                Some(_) => None,
            })
    }

    fn rank(&self, token: u64) -> u8 {
        let rank = self.tokens.iter().position(|other| *other == token);
        rank.map_or(UNKNOWN, |rank| u8::try_from(rank).expect("few grants"))
    }

    fn token(&self, rank: u8) -> Token {
        let known = self.tokens.get(usize::from(rank)).copied();
        let next = || self.tokens.last().map_or(1, |last| last + 1);
        Token(known.unwrap_or_else(next))
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        let mut owner_id = [0; NUMBER_BYTE + 1];
        owner_id[..8].copy_from_slice(&self.serial.to_be_bytes());
        owner_id[NUMBER_BYTE] = number;
        OwnerId::new(owner_id)
    }

    /// Converts the owner ids and tokens of the model's request to those on the server.
    fn translated(&self, request: &Request) -> Request {
        let owner_id = |owner_id: OwnerId| self.owner_id(owner_id.bytes()[NUMBER_BYTE]);
        let token = |token: Token| self.token(u8::try_from(token.0).expect("few grants"));
        translated(request, owner_id, token, &self.command.note, self.database)
    }

    fn execute_as_root(&mut self, statement: &str) {
        let outcome = self.admin.query_drop(statement);
        outcome.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn query_number(&mut self, query: &str) -> Option<u64> {
        let outcome = self.admin.query_first(query);
        outcome.unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}

/// Returns a session that is different from all sessions of contenders.
const fn foreign_session() -> Session {
    Session::current(usize::MAX)
}

fn column<T: mysql::prelude::FromValue>(row: &mut Row, at: usize) -> T {
    row.take(at).expect("the column exists")
}

fn hex(owner_id: OwnerId) -> String {
    let bytes = owner_id.bytes().iter();
    let hex: Vec<String> = bytes.map(|byte| format!("{byte:02X}")).collect();
    hex.concat()
}

/// Returns the identity of the database, as dlock's own code reads it.
fn database_id(database: &servers::Database) -> DatabaseId {
    let entry = QueueEntry {
        owner_id: OwnerId::new([0; NUMBER_BYTE + 1]),
        queue_lock: QueueLock::Available,
    };
    let mut own = Database::new(
        target(database, database.port),
        EFFECT_TIMEOUT,
        EFFECT_TIMEOUT,
    );
    let contender = contender("none".parse().expect("a name"));
    match own
        .request(&contender, &Request::GetWithQueue(entry))
        .outcome
    {
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
