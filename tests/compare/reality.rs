//! The real side of a sequence: contenders that ask a server, an operator, and root, who reads the rows.

use std::thread;
use std::time::{Duration, Instant};

use dlock::lease::action::Action;
use dlock::lease::{Claim, Token};
use dlock::store::intervention::{Intervention, Outcome};
use dlock::store::{Contender, Fence, Holder, Question, Reply};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::observed::{Heard, Observed, Rows, UNKNOWN, heard, ticks_left};
use crate::operator::Operator;
use crate::peer::{After, Peer, Rewrite};
use crate::question::translated;
use crate::server::{CLAIM, Session};
use crate::servers;
use crate::step::CONTENDERS;
use crate::theory::{Move, claim_of};
use crate::time::{TTL, ticks};

/// The sessions of a server and what they wait for.
const SESSIONS: &str = "(SELECT id,state FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,state FROM performance_schema.processlist*/) AS p";

/// How long the server may take to do what it does at once.
const SOON: Duration = Duration::from_secs(8);

/// What was seen of the sequence, or why the server cannot be compared any further.
pub(crate) type Outcomes = Result<Observed, String>;

/// The real side.
pub(crate) struct Reality {
    admin: Conn,
    operator: Operator,
    peers: [Peer; CONTENDERS],
    contender: Contender,
    /// The number of the sequence, by which its claims differ from those of others.
    serial: u64,
    /// The tokens by their rank: the first is that of a row that was never granted.
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

    /// Begins a sequence, on an action that nobody has used yet, with all contenders connected.
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

    /// Whether the sequence took so long that times are not what the model takes them for.
    pub(crate) fn is_late(&self) -> bool {
        self.began.elapsed() > ticks(1) / 2
    }

    /// Makes a step. Whoever gets a reply besides, by what is `expected`, has waited for it until now.
    pub(crate) fn step(&mut self, it: &Move, expected: &Observed) -> Outcomes {
        let mut replies = Vec::new();
        let mut intervened = None;
        match it {
            Move::Ask {
                who,
                question,
                waits: true,
                ..
            } => {
                self.wait_at_gate(*who, question)?;
                replies.push((*who, None));
            }
            Move::Ask {
                who,
                question,
                fault,
                ..
            } => {
                let question = self.translated(question);
                let (reply, after) = self.peers[*who].ask(&self.contender, &question, *fault);
                replies.push((*who, Some(reply)));
                if let After::Ends(session) | After::Dropped(Some(session)) = after {
                    self.wait_for_end(session)?;
                }
            }
            Move::Intervene(shown, deed, wakes) => {
                let intervention = Intervention {
                    action: self.contender.action.clone(),
                    token: self.token(*shown),
                    // A repetition by the same process would find its change made.
                    by: Holder {
                        pid: self.operators(),
                        ..Holder::default()
                    },
                    deed: *deed,
                };
                let holder = self.session_of_row();
                let outcome = self.operator.intervene(&intervention, *wakes);
                intervened = Some(match outcome.map_err(|failure| failure.to_string())? {
                    Outcome::Changed => (false, false),
                    Outcome::Done { woken } => (true, woken),
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
        // The row first: it tells the ranks of new tokens.
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

    /// Ends what is left of a sequence, so that the next can begin.
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

    fn heard(&self, who: usize, reply: Option<&Reply>) -> (usize, Heard, bool) {
        match reply {
            None => (who, Heard::Waits, false),
            Some(reply) => {
                let heard = heard(&reply.outcome, |token| self.rank(token.0));
                (who, heard, reply.could_grant)
            }
        }
    }

    fn wait_at_gate(&mut self, who: usize, question: &Question) -> Result<(), String> {
        let question = self.translated(question);
        self.peers[who].begin_to_wait(&self.contender, &question);
        self.soon("the contender waits at the gate", |it| {
            let session = it.peers[who].waiting_session().unwrap_or(0);
            let state =
                format!("SELECT id FROM {SESSIONS} WHERE id={session} AND state='User lock'");
            it.number(&state).is_some()
        })
    }

    /// Notes the end of a session that is being ended, and waits for it.
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

    /// The process id of an operator that has done nothing yet.
    const fn operators(&mut self) -> u32 {
        self.operators += 1;
        self.operators
    }

    /// Shifts all times of the action back.
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
            "closed_until",
        ]);
        self.root(&format!(
            "UPDATE dlock_lock SET {row} WHERE action='{action}'"
        ));
        let places = shift(&["since", "seen_at"]);
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
        let claims: Vec<Claim> = (0..CONTENDERS)
            .map(|who| self.claim(claim_of(who)))
            .collect();
        let notices: Vec<String> = claims
            .iter()
            .map(|claim| format!("IS_USED_LOCK('dlock-notice:{}')", hex(*claim)))
            .collect();
        let query = format!(
            "SELECT l.token,HEX(l.claim),l.renewals,l.gated,l.session_id,l.broken_at IS NOT NULL,\
             TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at),\
             COALESCE(TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.closed_until),0),\
             (SELECT GROUP_CONCAT(RIGHT(HEX(w.claim),2),':',w.session_id ORDER BY w.position) \
             FROM dlock_waiter AS w WHERE w.action=l.action),\
             (SELECT GROUP_CONCAT(r.token,':',r.ending ORDER BY r.token) FROM dlock_run AS r \
             WHERE r.action=l.action AND r.deed=0),\
             IS_USED_LOCK(CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/',l.action),256),40))),{} \
             FROM dlock_lock AS l WHERE l.action='{}'",
            notices.join(","),
            self.contender.action,
        );
        let row: Option<Row> = self.admin.query_first(&query).expect("root reads the rows");
        let mut row = row.expect("the row is there");
        let token: u64 = column(&mut row, 0);
        if token > self.tokens.last().copied().unwrap_or(0) {
            self.tokens.push(token);
        }
        let claim: Option<String> = column(&mut row, 1);
        let left: Option<i64> = column(&mut row, 6);
        let closed: i64 = column(&mut row, 7);
        let line: Option<String> = column(&mut row, 8);
        let runs: Option<String> = column(&mut row, 9);
        let gate: Option<u64> = column(&mut row, 10);
        let by = (0..CONTENDERS).map(|who| (who, column::<Option<u64>>(&mut row, 11 + who)));
        let handed_off: Vec<(u8, Option<u64>)> = by
            .filter(|(_, session)| session.is_some())
            .map(|(who, session)| (claim_of(who), session))
            .collect();
        let pairs = |text: Option<String>| -> Vec<(String, String)> {
            let text = text.unwrap_or_default();
            let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
            pairs.map(|(one, two)| (one.into(), two.into())).collect()
        };
        let hexed = |text: &str| u8::from_str_radix(&text[text.len() - 2..], 16).unwrap_or(UNKNOWN);
        let decimal = |text: &str| text.parse::<u64>().unwrap_or(0);
        let claim = claim.as_deref().map(hexed);
        Rows {
            claim,
            token: self.rank(token),
            renewals: column(&mut row, 2),
            gated: column::<u8>(&mut row, 3) == 1,
            session: self.session(Some(column(&mut row, 4))),
            broken: column::<u8>(&mut row, 5) == 1,
            left: claim.and(left).map(ticks_left),
            closed: ticks_left(closed).max(0),
            line: pairs(line)
                .iter()
                .map(|(claim, session)| (hexed(claim), self.session(Some(decimal(session)))))
                .collect(),
            runs: pairs(runs)
                .into_iter()
                .map(|(token, ending)| (self.rank(decimal(&token)), ending))
                .collect(),
            gate: self.session(gate).or(gate.map(|_| stranger())),
            handed_off: handed_off
                .into_iter()
                .map(|(claim, session)| (claim, self.session(session).unwrap_or(stranger())))
                .collect(),
        }
    }

    /// Whose session this is.
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

    fn claim(&self, number: u8) -> Claim {
        let mut claim = [0; CLAIM + 1];
        claim[..8].copy_from_slice(&self.serial.to_be_bytes());
        claim[CLAIM] = number;
        Claim::new(claim)
    }

    /// The model's question with real claims and tokens.
    fn translated(&self, question: &Question) -> Question {
        let claim = |claim: Claim| self.claim(claim.bytes()[CLAIM]);
        let token = |token: Token| self.token(u8::try_from(token.0).expect("few grants"));
        translated(question, claim, token)
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

/// A session that is nobody's.
const fn stranger() -> Session {
    Session::current(usize::MAX)
}

fn column<T: mysql::prelude::FromValue>(row: &mut Row, at: usize) -> T {
    row.take(at).expect("the column is there")
}

fn hex(claim: Claim) -> String {
    let bytes = claim.bytes().iter();
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
        fence: Fence::AsItIs,
    }
}
