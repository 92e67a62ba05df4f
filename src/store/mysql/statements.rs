//! The SQL of the protocol: what each packet says, and why that is safe.
//!
//! Text protocol, several statements a packet, so that an attempt costs one round trip. Every text
//! goes in as a hex literal and every number as a number: nothing is quoted, nothing is escaped,
//! and the character set of the session does not matter. Each packet ends with a SELECT that reads
//! back the request's own random number and the row; what that row says is the only truth.

use std::time::Duration;

use super::schema::VERSION;
use crate::lease::Grant;
use crate::lease::action::Action;
use crate::store::{
    ALLOWANCE, Contender, GATE_ALLOWANCE, Gate, GonePlace, Holder, POLLER_LIFE, Parting, Place,
    Turn, Version, Wish,
};
use crate::twin::{self, Mechanism};

/// The server that answers: sessions are counted and named locks are known there only.
const HERE: &str = "CONCAT(@@hostname,':',@@port,'/',@@server_id)";

/// The longest wait for a named lock that both servers take: a year.
const LONGEST_STAND: u64 = 31_536_000;

/// `bytes` as a hex literal.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2 + 3);
    text.push_str("x'");
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    text
}

fn hex_action(action: &Action) -> String {
    hex(action.as_str().as_bytes())
}

/// The name of the gate of `action`: the one place that maps an action to its named lock.
///
/// Named locks are global to a server, so the database is part of it; 64 characters is the most
/// that MySQL takes, so it is a hash; SHA-1 and MD5 are gone from MySQL 9.
fn gate_name(action: &Action) -> String {
    format!(
        "CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/',{}),256),40))",
        hex_action(action)
    )
}

/// The settings of a new session, sent in front of its first packet.
///
/// - `autocommit`: an `init_connect` may have turned it off, and an attempt would stay uncommitted.
/// - READ COMMITTED: no gap locks, and the subquery on `dlock_schema` takes no lock.
/// - The lock waits bound how long a statement lives on in the server after we gave it up. They do
///   not apply to named locks.
/// - `wait_timeout`: the server ends the session of a frozen client by itself, and with it the
///   client's hold on the gate.
/// - `sql_mode`: MariaDB's `SIMULTANEOUS_ASSIGNMENT` and the like must not change what is meant;
///   strict, so that a value that does not fit is an error and never cut.
pub(super) fn session(ttl: Duration) -> String {
    let idle = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET SESSION autocommit=1,sql_mode='STRICT_ALL_TABLES',\
         innodb_lock_wait_timeout=1,lock_wait_timeout=1,wait_timeout={idle};"
    )
}

/// An expression that takes the gate if that is possible within `seconds`. It does not take it
/// twice, since it would have to be released as often. What it yields proves nothing: a proxy, or a
/// function of the same name, may answer 1 and do nothing.
fn gate_taken(action: &Action, seconds: u64) -> String {
    let name = gate_name(action);
    format!("IF(IS_USED_LOCK({name})=CONNECTION_ID(),1,GET_LOCK({name},{seconds}))")
}

/// An expression that tells whether the gate is ours, which is the proof: 1, 0 or NULL.
fn gate_ours(action: &Action) -> String {
    format!("IS_USED_LOCK({})=CONNECTION_ID()", gate_name(action))
}

/// Makes sure that the row of `action` exists. Changes nothing that is there. Separate from the
/// attempt, which is then a plain UPDATE of one row and cannot deadlock with its like.
pub(super) fn create_row(action: &Action) -> String {
    format!(
        "INSERT INTO dlock_lock (action) VALUES ({}) ON DUPLICATE KEY UPDATE action=action;",
        hex_action(action)
    )
}

/// Takes the lease if the take-over rule allows it.
///
/// Changes at most the row of `action`, and that in one UPDATE, so of any number of contenders one
/// wins. "No row changed" means nothing by itself: the row may be another's, or ours already when
/// this packet is a repetition. With a gate nothing is changed but by the session that has it: a
/// newcomer cannot barge. Beyond that it matches when
/// - the row is free, or
/// - the lease lapsed [`GATE_ALLOWANCE`] ago by the server's clock, and we have the gate that the
///   holder's session had: that session is gone, so a stepped clock alone cannot fool us, or
/// - the lease lapsed [`ALLOWANCE`] ago by the server's clock, or
/// - the row still stands as the contender has watched it for a full ttl on its own clock
///   (`seen`); no clock of the server is trusted there.
///
/// Who has a place in the line gives it up in the same transaction: one commit, and a holder is
/// never in its own line.
///
/// The token takes the server's clock as its floor so that it keeps growing over a restored backup
/// and over a fail-over that lost the last grants.
///
/// `at_gate` tells that the gate was just taken and need not be tried for.
pub(super) fn attempt(contender: &Contender, wish: &Wish, at_gate: bool) -> String {
    let Contender { action, ttl, .. } = contender;
    let ttl_us = ttl.as_micros();
    let watched = wish
        .seen
        .map_or_else(String::new, |Version { token, renewals }| {
            format!(" OR (token={token} AND renewals={renewals})")
        });
    let lapsed = |by: Duration| {
        let by = by.as_micros();
        format!("expires_at<UTC_TIMESTAMP(6)-INTERVAL {by} MICROSECOND")
    };
    let (take, gated, have_gate, witnessed) = match wish.gate {
        Gate::Used => (
            match at_gate {
                true => String::new(),
                false => format!("DO {};", gate_taken(action, 0)),
            },
            "1",
            format!("AND {} ", gate_ours(action)),
            format!(
                " OR (gated=1 AND server={HERE} AND {})",
                lapsed(GATE_ALLOWANCE)
            ),
        ),
        Gate::Absent => (String::new(), "0", String::new(), String::new()),
    };
    let allowed = match twin::is_out(Mechanism::OwnClock) {
        false => format!(
            "{have_gate}AND (claim IS NULL OR {abandoned}{witnessed}{watched})",
            abandoned = lapsed(ALLOWANCE),
        ),
        true => format!("AND (claim IS NULL OR {})", lapsed(Duration::ZERO)),
    };
    let claim = hex(wish.claim.bytes());
    let action_hex = hex_action(action);
    let (begin, leave) = match wish.queued {
        true => (
            "BEGIN;",
            format!(
                "DELETE FROM dlock_waiter WHERE claim={claim} AND EXISTS(SELECT 1 FROM dlock_lock \
                 WHERE action={action_hex} AND claim={claim});COMMIT;"
            ),
        ),
        false => ("", String::new()),
    };
    format!(
        "{take}{begin}UPDATE dlock_lock SET \
         token=GREATEST(token+1,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))),\
         claim={claim},{facts},\
         server={HERE},session_id=CONNECTION_ID(),gated={gated},\
         ttl_us={ttl_us},renewals=0,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action_hex} AND (SELECT MAX(version) FROM dlock_schema)={VERSION} \
         {allowed};{leave}",
        facts = facts(&contender.holder),
    )
}

/// The holder's facts as assignments; the columns are the same in both tables.
fn facts(holder: &Holder) -> String {
    format!(
        "holder={},host={},pid={},user={},note={}",
        hex(holder.label.as_bytes()),
        hex(holder.host.as_bytes()),
        holder.pid,
        hex(holder.user.as_bytes()),
        hex(holder.note.as_bytes()),
    )
}

/// Takes a place in the line, or keeps the one that this claim has; then it only notes where we
/// are now and that we are still there. Changes one row, found by its claim.
///
/// The DELETE finds no row: it is there to be refused now, with the grants in the message, and not
/// when the command has run and the place is to be cleared.
pub(super) fn queue(contender: &Contender, place: Place) -> String {
    let polls = u8::from(place.gate == Gate::Absent);
    let now = format!(
        "polls={polls},server={HERE},session_id=CONNECTION_ID(),account=CURRENT_USER(),\
         seen_at=UTC_TIMESTAMP(6)"
    );
    format!(
        "INSERT INTO dlock_waiter SET action={},claim={},{},since=UTC_TIMESTAMP(6),{now} \
         ON DUPLICATE KEY UPDATE {now};\
         DELETE FROM dlock_waiter WHERE position=0;",
        hex_action(&contender.action),
        hex(place.claim.bytes()),
        facts(&contender.holder),
    )
}

/// Waits for the gate, `patience` rounded up or for ever, and answers whether the server says that
/// it is ours. Before that it clears away places whose sessions are gone, each only if its session
/// is still the one that was seen to be gone.
pub(super) fn stand(request: [u8; 8], action: &Action, turn: &Turn) -> String {
    let clear: Vec<String> = turn
        .gone
        .iter()
        .map(|GonePlace { position, session }| {
            format!("DELETE FROM dlock_waiter WHERE position={position} AND session_id={session};")
        })
        .collect();
    let seconds = turn.patience.map_or(LONGEST_STAND, |patience| {
        (patience.as_secs() + 1).min(LONGEST_STAND)
    });
    format!(
        "{}SELECT {} AS request,{} AS answer",
        clear.concat(),
        hex(&request),
        gate_taken(action, seconds)
    )
}

/// Extends the lease. Changes the row only while claim and token are ours, whatever the server's
/// clock says; the condition is the same every time, so a repetition after a lost reply succeeds.
///
/// On a new session the gate is tried for again, and the row says whether we got it: without it
/// we are no longer proof of our own life.
pub(super) fn renew(contender: &Contender, grant: Grant, moved: Option<Gate>) -> String {
    let (take, session) = match moved {
        None => (String::new(), String::new()),
        Some(Gate::Used) => (
            format!("DO {};", gate_taken(&contender.action, 0)),
            format!(
                "server={HERE},session_id=CONNECTION_ID(),gated=COALESCE({},0),",
                gate_ours(&contender.action)
            ),
        ),
        Some(Gate::Absent) => (
            String::new(),
            format!("server={HERE},session_id=CONNECTION_ID(),gated=0,"),
        ),
    };
    format!(
        "{take}UPDATE dlock_lock SET renewals=renewals+1,{session}\
         renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {} MICROSECOND \
         WHERE action={} AND claim={} AND token={};",
        contender.ttl.as_micros(),
        hex_action(&contender.action),
        hex(grant.claim.bytes()),
        grant.token,
    )
}

/// Frees the row if it is still ours, then lets the next waiter through the gate, then clears our
/// place in the line: in this order, so that the waiter finds the row free and is not kept waiting
/// for the rest. "No row changed": it was not ours, or this is a repetition. Answers whether the
/// lease is still ours, which must not be.
pub(super) fn release(request: [u8; 8], action: &Action, parting: &Parting) -> String {
    let action_hex = hex_action(action);
    let claim = hex(parting.claim.bytes());
    let token = match parting.token {
        Some(token) => format!(" AND token={token}"),
        None => String::new(),
    };
    let gate = match parting.gate {
        Gate::Used => format!("DO RELEASE_LOCK({});", gate_name(action)),
        Gate::Absent => String::new(),
    };
    let place = match parting.queued {
        true => format!("DELETE FROM dlock_waiter WHERE claim={claim};"),
        false => String::new(),
    };
    format!(
        "UPDATE dlock_lock SET claim=NULL,released_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6) \
         WHERE action={action_hex} AND claim={claim}{token};{gate}{place}\
         SELECT {} AS request,COUNT(*) AS answer FROM dlock_lock \
         WHERE action={action_hex} AND claim={claim}{token}",
        hex(&request),
    )
}

/// Which rows a look shows.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Those of these actions.
    Named(&'a [Action]),
    /// Those that somebody holds, held until the lease lapsed, or waits for.
    Wanted,
    /// All.
    All,
}

/// How much a [`sight`] of one action shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outlook {
    /// The row.
    Row,
    /// And the line as seen from a place in it.
    Line(Place),
    /// And the places in it of which the session is gone, which takes the server some work.
    Places(Place),
}

/// Reads rows; no lock is taken. Always yields at least one row, whose action is NULL when there
/// is none to show: the request's number, the version and the server's time come with it.
pub(super) fn sight(request: [u8; 8], selection: Selection, outlook: Outlook) -> String {
    let condition = match selection {
        Selection::Named([]) => "FALSE".to_owned(),
        Selection::Named(actions) => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("l.action IN ({})", names.join(","))
        }
        Selection::Wanted => "(l.claim IS NOT NULL OR EXISTS(\
             SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action))"
            .to_owned(),
        Selection::All => "TRUE".to_owned(),
    };
    let line = match (outlook, selection) {
        (Outlook::Line(place), Selection::Named([action])) => line(action, place, "NULL"),
        (Outlook::Places(place), Selection::Named([action])) => line(action, place, &gone(action)),
        _ => String::new(),
    };
    format!(
        "SELECT {} AS request,(SELECT MAX(version) FROM dlock_schema) AS version,\
         TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) AS server_time,\
         l.action AS action,l.token AS token,l.claim AS claim,l.renewals AS renewals,\
         l.holder AS holder,l.host AS host,l.pid AS pid,l.user AS user,l.note AS note,\
         l.ttl_us AS ttl_us,l.acquired_at AS acquired_at,\
         l.gated=1 AND l.server={HERE} AS gated_here,\
         TIMESTAMPDIFF(MICROSECOND,l.acquired_at,UTC_TIMESTAMP(6)) AS held_us,\
         TIMESTAMPDIFF(MICROSECOND,l.renewed_at,UTC_TIMESTAMP(6)) AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us{line} \
         FROM (SELECT 1) AS one LEFT JOIN dlock_lock AS l ON {condition} ORDER BY l.action",
        hex(&request),
    )
}

/// A waiter `w` that polls and has not been seen for long enough to be gone.
fn silent() -> String {
    format!(
        "(w.polls=1 AND w.seen_at<UTC_TIMESTAMP(6)-INTERVAL {} MICROSECOND)",
        POLLER_LIFE.as_micros()
    )
}

/// The places of which the session is gone, as a list of `position:session`. Only sessions of our
/// own account on this server can be judged, those on another server by their age alone. The list
/// may be cut; what is cut off names no session. Only the first places are looked at, and only
/// when the first of all has stood for a while: listing sessions takes the server milliseconds, and
/// among a thousand waiters each newcomer would compare a thousand places with as many sessions.
fn gone(action: &Action) -> String {
    format!(
        "IF((SELECT MIN(w.since) FROM dlock_waiter AS w WHERE w.action=l.action)\
         <UTC_TIMESTAMP(6)-INTERVAL 10 SECOND,\
         (SELECT GROUP_CONCAT(w.position,':',w.session_id) FROM (SELECT * FROM dlock_waiter \
         WHERE action={} ORDER BY position LIMIT 20) AS w \
         LEFT JOIN information_schema.processlist AS p ON p.id=w.session_id \
         WHERE ({} OR (w.polls=0 AND IF(w.server={HERE},\
         w.account=CURRENT_USER() AND p.id IS NULL,\
         w.seen_at<UTC_TIMESTAMP(6)-INTERVAL 1 DAY)))),NULL)",
        hex_action(action),
        silent()
    )
}

/// The columns about the line: who has the gate, and how many wait in front of `place`; those are
/// not counted when the row is ours.
fn line(action: &Action, place: Place, gone: &str) -> String {
    let keeper = match place.gate {
        Gate::Used => {
            let name = gate_name(action);
            format!(
                "IS_USED_LOCK({name}) AS keeper,CONNECTION_ID() AS session,\
                 (IS_USED_LOCK({name})=l.session_id AND l.gated=1 AND l.server={HERE}) OR EXISTS(\
                 SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action \
                 AND w.session_id=IS_USED_LOCK({name}) AND w.server={HERE}) AS keeper_known"
            )
        }
        Gate::Absent => "NULL AS keeper,NULL AS session,NULL AS keeper_known".to_owned(),
    };
    let claim = hex(place.claim.bytes());
    format!(
        ",{keeper},IF(l.claim={claim},0,(SELECT COUNT(*) FROM dlock_waiter AS w \
         WHERE w.action=l.action AND w.claim<>{claim} AND NOT {silent} AND w.position<COALESCE(\
         (SELECT m.position FROM dlock_waiter AS m WHERE m.claim={claim}),~0))) AS ahead,\
         {gone} AS gone",
        silent = silent(),
    )
}

/// Lists the waiters of the actions in `selection`, in order, with whether each one's session is
/// there as far as our account can see: that of another account is hidden without the PROCESS
/// privilege, that on another server always.
pub(super) fn waiters(request: [u8; 8], selection: Selection) -> String {
    let condition = match selection {
        Selection::Named([]) => "FALSE".to_owned(),
        Selection::Named(actions) => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("w.action IN ({})", names.join(","))
        }
        Selection::Wanted | Selection::All => "TRUE".to_owned(),
    };
    format!(
        "SELECT {} AS request,w.position AS position,w.action AS action,w.session_id AS session,\
         w.holder AS holder,w.host AS host,w.pid AS pid,w.user AS user,w.note AS note,\
         TIMESTAMPDIFF(MICROSECOND,w.since,UTC_TIMESTAMP(6)) AS waiting_us,\
         CASE WHEN w.polls=1 THEN NOT {silent} \
         WHEN w.server<>{HERE} THEN NULL WHEN p.id IS NOT NULL THEN 1 \
         WHEN w.account=CURRENT_USER() THEN 0 ELSE NULL END AS alive \
         FROM (SELECT 1) AS one LEFT JOIN (dlock_waiter AS w \
         LEFT JOIN information_schema.processlist AS p ON p.id=w.session_id AND w.server={HERE}) \
         ON {condition} ORDER BY w.position",
        hex(&request),
        silent = silent(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{attempt, hex, queue, session, stand};
    use crate::lease::{Claim, Token};
    use crate::store::{Contender, Gate, Holder, Place, Turn, Version, Wish};

    #[test]
    fn no_text_of_a_user_stands_in_a_packet_as_itself() {
        let hostile = "x'; DROP TABLE dlock_lock; -- \\";
        let contender = Contender {
            action: hostile.parse().expect("a legal if nasty name"),
            holder: Holder {
                label: hostile.to_owned(),
                host: hostile.to_owned(),
                pid: 1,
                user: hostile.to_owned(),
                note: hostile.to_owned(),
            },
            ttl: Duration::from_secs(30),
        };
        let claim = Claim::new([7; 16]);
        let gate = Gate::Used;
        let seen = Some(Version {
            token: Token(5),
            renewals: 6,
        });
        let wish = Wish {
            claim,
            seen,
            gate,
            queued: true,
        };
        let packet = attempt(&contender, &wish, false);
        assert!(packet.contains("OR (token=5 AND renewals=6)"), "{packet}");
        let queue = queue(&contender, Place { claim, gate });
        let turn = Turn {
            wish,
            patience: None,
            gone: Vec::new(),
        };
        let stand = stand([0; 8], &contender.action, &turn);
        for packet in [packet, queue, stand] {
            assert!(!packet.contains("DROP"), "{packet}");
        }
    }

    #[test]
    fn hex_of_nothing_is_an_empty_text() {
        assert_eq!(hex(b""), "x''");
        assert_eq!(hex(b"init"), "x'696e6974'");
    }

    #[test]
    fn the_session_timeout_is_the_ttl_rounded_up() {
        assert!(session(Duration::from_millis(2_001)).contains("wait_timeout=3;"));
        assert!(session(Duration::from_secs(30)).contains("wait_timeout=30;"));
    }
}
