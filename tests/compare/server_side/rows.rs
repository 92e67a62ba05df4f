//! The rows of the action on a real server, with the model's numbers.

use std::num::NonZeroU32;

use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::session::{SLOTS_MARK, SessionNote};
use mysql::Row;

use super::ServerSide;
use crate::model_side::owner_id_of;
use crate::observed::{LeaseRow, Rows, UNKNOWN, is_lease, ticks_left};
use crate::server::Session;
use crate::step::CONTENDERS;
use testkit::sql::Sql;

/// The columns that `dlock_lock` and `dlock_slot` have in common.
const LEASE: &str = "token,HEX(owner_id),renewals,has_queue_lock,session_id,revoked_at IS NOT NULL,\
     TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),expires_at),sessions";

impl ServerSide {
    /// Reads the rows. Adds the tokens that are higher than all known tokens.
    pub(super) fn rows(&mut self) -> Rows {
        let action = self.contender.action.clone();
        let leases = format!(
            "SELECT 0 AS slot,NULL,{LEASE} FROM dlock_lock WHERE action='{action}' UNION ALL \
             SELECT slot,slots,{LEASE} FROM dlock_slot WHERE action='{action}' ORDER BY slot"
        );
        let leases: Vec<Row> = self.admin.rows(leases);
        let mut tokens: Vec<u64> = leases.iter().map(|row| column(row, 2)).collect();
        tokens.sort_unstable();
        for token in tokens {
            if token > self.tokens.last().copied().unwrap_or(0) {
                self.tokens.push(token);
            }
        }
        let leases = leases.iter().map(|row| self.lease_row(row)).collect();
        let owners = |kind: &str| {
            let owner_ids = (0..CONTENDERS).map(|index| self.owner_id(owner_id_of(index)));
            let locks = owner_ids.map(|id| format!("IS_USED_LOCK('{kind}:{}')", hex(id)));
            locks.collect::<Vec<_>>().join(",")
        };
        let query = format!(
            "SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.paused_until),0),\
             (SELECT GROUP_CONCAT(RIGHT(HEX(w.owner_id),2),':',w.session_id ORDER BY w.position) \
             FROM dlock_waiter AS w WHERE w.action=l.action),\
             (SELECT GROUP_CONCAT(r.token,':',r.outcome ORDER BY r.token) FROM dlock_history AS r \
             WHERE r.action=l.action AND r.kind=0),\
             IS_USED_LOCK(CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00',l.action),256),40))),{},{} \
             FROM dlock_lock AS l WHERE l.action='{action}'",
            owners("dlock-handoff"),
            owners("dlock-holder"),
        );
        let row: Row = self.admin.value(query);
        let session_or_foreign = |id: Option<u64>| {
            let foreign = Session::current(usize::MAX);
            id.map(|_| self.session(id).unwrap_or(foreign))
        };
        let by_owner = |first: usize| -> Vec<(u8, Session)> {
            let sessions = (0..CONTENDERS).filter_map(|index| {
                let session = session_or_foreign(column(&row, first + index));
                session.map(|session| (owner_id_of(index), session))
            });
            sessions.collect()
        };
        let decimal = |text: &str| text.parse::<u64>().unwrap_or(0);
        let queue = pairs(column(&row, 1)).into_iter();
        let runs = pairs(column(&row, 2)).into_iter();
        Rows {
            leases,
            paused: ticks_left(column(&row, 0)).max(0),
            queue: queue
                .map(|(owner_id, id)| (parse_hex(&owner_id), self.session(Some(decimal(&id)))))
                .collect(),
            runs: runs
                .map(|(token, run_end)| (self.rank(decimal(&token)), run_end))
                .collect(),
            queue_lock: session_or_foreign(column(&row, 3)),
            handed_off: by_owner(4),
            holder_locks: by_owner(4 + CONTENDERS),
        }
    }

    fn lease_row(&self, row: &Row) -> LeaseRow {
        let owner_id: Option<String> = column(row, 3);
        let owner_id = owner_id.as_deref().map(parse_hex);
        let limit = column::<Option<u32>>(row, 1).and_then(NonZeroU32::new);
        let note: Option<Vec<u8>> = column(row, 9);
        let has_mark = |text: &Vec<u8>| text.starts_with(SLOTS_MARK.as_bytes());
        let expires_in: Option<i64> = column(row, 8);
        let number = column(row, 0);
        LeaseRow {
            number,
            limit: owner_id
                .filter(|_| number > 0)
                .map(|_| limit.map_or(Limit::NONE, Limit::new)),
            owner_id,
            token: self.rank(column(row, 2)),
            renewals: column(row, 4),
            has_queue_lock: column::<u8>(row, 5) == 1,
            session: self.session(Some(column(row, 6))),
            revoked: column::<u8>(row, 7) == 1,
            expires_in: expires_in.filter(|_| is_lease(owner_id)).map(ticks_left),
            may_have_noted_slots: note.as_ref().is_some_and(has_mark),
            note: note
                .and_then(|text| SessionNote::from_text(&text))
                .map(|note| self.rank(note.token.0)),
        }
    }

    /// Returns the model's session for the session `id`. None if no contender has this session.
    fn session(&self, id: Option<u64>) -> Option<Session> {
        let id = id.filter(|id| *id > 0)?;
        let mut contenders = self.contenders.iter().enumerate();
        contenders.find_map(|(index, contender)| match Some(id) {
            id if id == contender.current() => Some(Session::current(index)),
            id if id == contender.dropped() => Some(Session::dropped(index)),
            _ => None,
        })
    }

    pub(super) fn rank(&self, token: u64) -> u8 {
        let rank = self.tokens.iter().position(|other| *other == token);
        rank.map_or(UNKNOWN, |rank| u8::try_from(rank).expect("few grants"))
    }

    pub(super) fn token(&self, rank: u8) -> Token {
        let known = self.tokens.get(usize::from(rank)).copied();
        let next = || self.tokens.last().map_or(1, |last| last + 1);
        Token(known.unwrap_or_else(next))
    }
}

fn column<T: mysql::prelude::FromValue>(row: &Row, at: usize) -> T {
    row.get(at).expect("the column exists")
}

/// Returns the pairs in a list like `1:a,2:b`.
fn pairs(text: Option<String>) -> Vec<(String, String)> {
    let text = text.unwrap_or_default();
    let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
    let pairs = pairs.map(|(first, second)| (first.to_owned(), second.to_owned()));
    pairs.collect()
}

fn hex(owner_id: OwnerId) -> String {
    let bytes = owner_id.bytes().iter();
    let hex: Vec<String> = bytes.map(|byte| format!("{byte:02X}")).collect();
    hex.concat()
}

/// Returns the model's number for an owner id in hexadecimal.
fn parse_hex(text: &str) -> u8 {
    u8::from_str_radix(&text[text.len() - 2..], 16).unwrap_or(UNKNOWN)
}
