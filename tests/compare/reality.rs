//! The real side of a sequence: contenders and an operator on a server, and root, which reads the rows.

use std::thread;
use std::time::{Duration, Instant};

use dlock::lease::action::Action;
use dlock::lease::{OwnerId, Token};
use dlock::store::operator::{OperatorRequest, OperatorResult};
use dlock::store::{Contender, FenceMode, Holder, Request, TimedResponse};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::observed::{Heard, Observed, Rows, UNKNOWN, heard, ticks_left};
use crate::operator::Operator;
use crate::peer::{After, Peer, Rewrite};
use crate::question::translated;
use crate::server::{OWNER_ID, Session};
use crate::servers;
use crate::step::CONTENDERS;
use crate::theory::{Move, owner_id_of};
use crate::time::{TTL, ticks};

/// Subquery for the sessions of a server and their states.
const SESSIONS: &str = "(SELECT id,state FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,state FROM performance_schema.processlist*/) AS p";

/// Maximum time for an effect that the server normally has at once.
const SOON: Duration = Duration::from_secs(8);

/// An observation, or the reason why the comparison cannot continue.
pub(crate) type Outcomes = Result<Observed, String>;

/// The real side.
pub(crate) struct Reality {
    admin: Conn,
    operator: Operator,
    peers: [Peer; CONTENDERS],
    contender: Contender,
    /// The number of the sequence, which makes its owner ids unique.
    serial: u64,
    /// The tokens by rank. The first is that of a row that was never granted.
    tokens: Vec<u64>,
    began: Instant,
    operators: u32,
}

impl Reality {
    pub(crate) fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        let operator = Operator::new(database);
        Self {
            admin: database.admin_conn(),
            operator,
            peers: [(); CONTENDERS].map(|()| Peer::new(database, rewrite)),
            contender: contender("none".parse().expect("a name")),
            serial: 0,
            tokens: Vec::new(),
            began: Instant::now(),
            operators: 0,
        }
    }

    /// Begins a sequence on a new action, with all contenders connected.
    pub(crate) fn begin(&mut self, serial: u64) {
        let name = format!("sequence {serial}");
        self.serial = serial;
        self.tokens = vec![0];
        self.contender = contender(name.parse().expect("a name"));
        self.root(&format!(
            "INSERT INTO dlock_lock (action) VALUES ('{name}')"
        ));
        for peer in &mut self.peers {
            peer.connect(&self.contender);
        }
        self.began = Instant::now();
    }

    /// Returns true if the sequence took so long that its times differ from the model's.
    pub(crate) fn is_late(&self) -> bool {
        self.began.elapsed() > ticks(1) / 2
    }

    /// Makes a step. Further contenders that get a response according to `expected` have waited for it until now.
    pub(crate) fn step(&mut self, it: &Move, expected: &Observed) -> Outcomes {
        let mut replies = Vec::new();
        let mut intervened = None;
        match it {
            Move::Ask {
                who,
                request,
                waits: true,
                ..
            } => {
                self.wait_for_queue_lock(*who, request)?;
                replies.push((*who, None));
            }
            Move::Ask {
                who,
                request,
                fault,
                ..
            } => {
                let request = self.translated(request);
                let (reply, after) = self.peers[*who].ask(&self.contender, &request, *fault);
                replies.push((*who, Some(reply)));
                if let After::Ends(session) | After::Dropped(Some(session)) = after {
                    self.wait_for_end(session)?;
                }
            }
            Move::Intervene(shown, kind, wakes) => {
                let intervention = OperatorRequest {
                    action: self.contender.action.clone(),
                    token: self.token(*shown),
                    // A repeated request of the same process would find its action already applied.
                    by: Holder {
                        pid: self.operators(),
                        ..Holder::default()
                    },
                    kind: *kind,
                };
                let holder = self.session_of_row();
                let outcome = self.operator.intervene(&intervention, *wakes);
                intervened = Some(match outcome.map_err(|failure| failure.to_string())? {
                    OperatorResult::Conflict => (false, false),
                    OperatorResult::Applied { woken } => (true, woken),
                });
                if let Some((_, true)) = intervened {
                    self.end(holder)?;
                }
            }
            Move::Kill(who) => {
                let session = self.peers[*who].current().ok_or("there is no session")?;
                self.root(&format!("KILL {session}"));
                self.end(session)?;
                if self.peers[*who].is_waiting() {
                    replies.push((*who, self.peers[*who].waited()));
                }
            }
            Move::Drop(who) => {
                if let Some(session) = self.peers[*who].drop_connection() {
                    self.wait_for_end(session)?;
                }
            }
            Move::Notice(who) => {
                if let Some(session) = self.peers[*who].notice() {
                    self.wait_for_end(session)?;
                }
            }
            Move::Ticks(count) => self.pass(*count),
        }
        for (who, ..) in expected.heard.iter().skip(replies.len()) {
            replies.push((*who, self.peers[*who].waited()));
        }
        // The rows are read first, because they define the ranks of new tokens.
        let rows = self.rows();
        let heard = replies
            .into_iter()
            .map(|(who, reply)| self.heard(who, reply.as_ref()));
        Ok(Observed {
            heard: heard.collect(),
            intervened,
            rows,
        })
    }

    /// Ends all waits and lingering sessions of a sequence, so that the next can begin.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        for who in 0..CONTENDERS {
            if self.peers[who].is_waiting() {
                if let Some(session) = self.peers[who].waiting_session() {
                    self.root(&format!("KILL {session}"));
                    self.end(session)?;
                }
                self.peers[who].waited();
            }
            if let Some(session) = self.peers[who].notice() {
                self.wait_for_end(session)?;
            }
        }
        Ok(())
    }

    fn heard(&self, who: usize, reply: Option<&TimedResponse>) -> (usize, Heard, bool) {
        match reply {
            None => (who, Heard::Waits, false),
            Some(reply) => {
                let heard = heard(&reply.outcome, |token| self.rank(token.0));
                (who, heard, reply.could_grant)
            }
        }
    }

    fn wait_for_queue_lock(&mut self, who: usize, request: &Request) -> Result<(), String> {
        let request = self.translated(request);
        self.peers[who].begin_to_wait(&self.contender, &request);
        self.soon("the contender waits for the queue lock", |it| {
            let session = it.peers[who].waiting_session().unwrap_or(0);
            let state =
                format!("SELECT id FROM {SESSIONS} WHERE id={session} AND state='User lock'");
            it.number(&state).is_some()
        })
    }

    /// Waits for the end of a session and records it.
    fn end(&mut self, session: u64) -> Result<(), String> {
        self.wait_for_end(session)?;
        self.peers.iter_mut().for_each(|peer| peer.ended(session));
        Ok(())
    }

    fn wait_for_end(&mut self, session: u64) -> Result<(), String> {
        let there = format!("SELECT id FROM {SESSIONS} WHERE id={session}");
        self.soon("the session ends", |it| it.number(&there).is_none())
    }

    fn soon(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        while !condition(self) {
            if began.elapsed() > SOON {
                return Err(format!("never happened: {what}"));
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns the process id of a new operator.
    const fn operators(&mut self) -> u32 {
        self.operators += 1;
        self.operators
    }

    /// Shifts all times of the action back by `count` ticks.
    fn pass(&mut self, count: u8) {
        let by = format!("INTERVAL {} SECOND", ticks(count).as_secs());
        let action = self.contender.action.clone();
        let shift = |columns: &[&str]| {
            let shifted = columns.iter().map(|name| format!("{name}={name}-{by}"));
            shifted.collect::<Vec<_>>().join(",")
        };
        let row = shift(&[
            "acquired_at",
            "renewed_at",
            "expires_at",
            "released_at",
            "paused_until",
        ]);
        self.root(&format!(
            "UPDATE dlock_lock SET {row} WHERE action='{action}'"
        ));
        let places = shift(&["enqueued_at", "last_seen_at"]);
        self.root(&format!(
            "UPDATE dlock_waiter SET {places} WHERE action='{action}'"
        ));
    }

    fn session_of_row(&mut self) -> u64 {
        let action = &self.contender.action;
        let session = format!("SELECT session_id FROM dlock_lock WHERE action='{action}'");
        self.number(&session).unwrap_or(0)
    }

    fn rows(&mut self) -> Rows {
        let owner_ids: Vec<OwnerId> = (0..CONTENDERS)
            .map(|who| self.owner_id(owner_id_of(who)))
            .collect();
        let handoffs: Vec<String> = owner_ids
            .iter()
            .map(|owner_id| format!("IS_USED_LOCK('dlock-handoff:{}')", hex(*owner_id)))
            .collect();
        let query = format!(
            "SELECT l.token,HEX(l.owner_id),l.renewals,l.has_queue_lock,l.session_id,l.revoked_at IS NOT NULL,\
             TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at),\
             COALESCE(TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.paused_until),0),\
             (SELECT GROUP_CONCAT(RIGHT(HEX(w.owner_id),2),':',w.session_id ORDER BY w.position) \
             FROM dlock_waiter AS w WHERE w.action=l.action),\
             (SELECT GROUP_CONCAT(r.token,':',r.outcome ORDER BY r.token) FROM dlock_history AS r \
             WHERE r.action=l.action AND r.kind=0),\
             IS_USED_LOCK(CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/',l.action),256),40))),{} \
             FROM dlock_lock AS l WHERE l.action='{}'",
            handoffs.join(","),
            self.contender.action,
        );
        let row: Option<Row> = self.admin.query_first(&query).expect("root reads the rows");
        let mut row = row.expect("the row is there");
        let token: u64 = column(&mut row, 0);
        if token > self.tokens.last().copied().unwrap_or(0) {
            self.tokens.push(token);
        }
        let owner_id: Option<String> = column(&mut row, 1);
        let left: Option<i64> = column(&mut row, 6);
        let paused: i64 = column(&mut row, 7);
        let queue: Option<String> = column(&mut row, 8);
        let runs: Option<String> = column(&mut row, 9);
        let queue_lock: Option<u64> = column(&mut row, 10);
        let by = (0..CONTENDERS).map(|who| (who, column::<Option<u64>>(&mut row, 11 + who)));
        let handed_off: Vec<(u8, Option<u64>)> = by
            .filter(|(_, session)| session.is_some())
            .map(|(who, session)| (owner_id_of(who), session))
            .collect();
        let pairs = |text: Option<String>| -> Vec<(String, String)> {
            let text = text.unwrap_or_default();
            let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
            pairs.map(|(one, two)| (one.into(), two.into())).collect()
        };
        let hexed = |text: &str| u8::from_str_radix(&text[text.len() - 2..], 16).unwrap_or(UNKNOWN);
        let decimal = |text: &str| text.parse::<u64>().unwrap_or(0);
        let owner_id = owner_id.as_deref().map(hexed);
        Rows {
            owner_id,
            token: self.rank(token),
            renewals: column(&mut row, 2),
            has_queue_lock: column::<u8>(&mut row, 3) == 1,
            session: self.session(Some(column(&mut row, 4))),
            revoked: column::<u8>(&mut row, 5) == 1,
            left: owner_id.and(left).map(ticks_left),
            paused: ticks_left(paused).max(0),
            queue: pairs(queue)
                .iter()
                .map(|(owner_id, session)| (hexed(owner_id), self.session(Some(decimal(session)))))
                .collect(),
            runs: pairs(runs)
                .into_iter()
                .map(|(token, ending)| (self.rank(decimal(&token)), ending))
                .collect(),
            queue_lock: self
                .session(queue_lock)
                .or(queue_lock.map(|_| foreign_session())),
            handed_off: handed_off
                .into_iter()
                .map(|(owner_id, session)| {
                    (owner_id, self.session(session).unwrap_or(foreign_session()))
                })
                .collect(),
        }
    }

    /// Returns the model's session for this id. None if it belongs to no contender.
    fn session(&self, id: Option<u64>) -> Option<Session> {
        self.peers
            .iter()
            .enumerate()
            .find_map(|(who, peer)| match id {
                None | Some(0) => None,
                id if id == peer.current() => Some(Session::current(who)),
                id if id == peer.dropped() => Some(Session::dropped(who)),
                Some(_) => None,
            })
    }

    fn rank(&self, token: u64) -> u8 {
        let rank = self.tokens.iter().position(|other| *other == token);
        rank.map_or(UNKNOWN, |rank| u8::try_from(rank).expect("few grants"))
    }

    fn token(&self, rank: u8) -> Token {
        Token(self.tokens.get(usize::from(rank)).copied().unwrap_or(1))
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        let mut owner_id = [0; OWNER_ID + 1];
        owner_id[..8].copy_from_slice(&self.serial.to_be_bytes());
        owner_id[OWNER_ID] = number;
        OwnerId::new(owner_id)
    }

    /// Returns the model's request with real owner ids and tokens.
    fn translated(&self, request: &Request) -> Request {
        let owner_id = |owner_id: OwnerId| self.owner_id(owner_id.bytes()[OWNER_ID]);
        let token = |token: Token| self.token(u8::try_from(token.0).expect("few grants"));
        translated(request, owner_id, token)
    }

    fn root(&mut self, statement: &str) {
        let outcome = self.admin.query_drop(statement);
        outcome.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn number(&mut self, query: &str) -> Option<u64> {
        let outcome = self.admin.query_first(query);
        outcome.unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}

/// Returns a session that belongs to no contender.
const fn foreign_session() -> Session {
    Session::current(usize::MAX)
}

fn column<T: mysql::prelude::FromValue>(row: &mut Row, at: usize) -> T {
    row.take(at).expect("the column is there")
}

fn hex(owner_id: OwnerId) -> String {
    let bytes = owner_id.bytes().iter();
    let hex: Vec<String> = bytes.map(|byte| format!("{byte:02X}")).collect();
    hex.concat()
}

fn contender(action: Action) -> Contender {
    Contender {
        action,
        holder: Holder {
            label: "a contender".to_owned(),
            ..Holder::default()
        },
        ttl: ticks(TTL),
        once: None,
        history: 100,
        fence: FenceMode::Unchanged,
    }
}
