//! The SQL of the protocol: what each packet says, and why that is safe.
//!
//! Text protocol, several statements a packet, so that an attempt costs one round trip. Every text
//! goes in as a hex literal and every number as a number: nothing is quoted, nothing is escaped,
//! and the character set of the session does not matter. Each packet ends with a SELECT that reads
//! back the request's own random number and the row; what that row says is the only truth.

mod attempt;
mod fence;
mod hand_off;
mod intervene;
mod keep;
mod line;
mod look;
mod record;

use std::time::Duration;

pub(super) use self::attempt::attempt;
pub use self::fence::fence_check;
pub(super) use self::hand_off::give as hand_off;
pub(super) use self::intervene::{intervene, wake};
pub(super) use self::keep::{release, renew, settle};
pub(super) use self::line::{gone, queue, stand};
pub use self::look::Selection;
pub(super) use self::look::{proof, sight, survey};
pub(super) use self::record::{entries, forget, may_record};

use super::schema::VERSION;
use crate::lease::action::Action;
use crate::store::Holder;

/// The server that answers: sessions are counted and named locks are known there only.
const HERE: &str = "CONCAT(@@hostname,':',@@port,'/',@@server_id)";

/// Those sessions of [`HERE`] that our account can see. MySQL's list in `information_schema` fails
/// while a session runs a statement that is not text in utf8mb3, such as an emoji. The comment makes MySQL
/// read another list, which it has from 8.0.22 on and which is empty if the server keeps none
/// ([`SESSIONS_LISTED`] checks that). MariaDB skips the comment.
pub(super) const SESSIONS: &str = "(SELECT id,user,command FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,user,command FROM performance_schema.processlist*/)";

/// A condition: what is not among the sessions is not there.
const SESSIONS_LISTED: &str = "TRUE/*!80022 AND EXISTS(\
     SELECT 1 FROM performance_schema.processlist WHERE id=CONNECTION_ID())*/";

/// The first column of each SELECT. [`numbered`] replaces `:request` by the number of the request.
const REQUEST: &str = ":request AS request";

/// The version of the tables; NULL if there is none.
const SCHEMA_VERSION: &str = "(SELECT MAX(version) FROM dlock_schema)";

/// The server's clock: microseconds since 1970.
const SERVER_TIME: &str = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

/// How many rows the statement changed that matters in a packet: set right after it, and read back with
/// the request's number at the end of the same packet.
const CHANGED: &str = "@dlock_changed";

/// A condition of a grant: no operator keeps the action closed.
const OPEN: &str = "COALESCE(closed_until<=UTC_TIMESTAMP(6),TRUE)";

/// `packet` with the number of the request, by which the reply is known.
pub(super) fn numbered(packet: &str, request: [u8; 8]) -> String {
    packet.replace(REQUEST, &format!("{} AS request", hex(request)))
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

/// Makes sure that the row of `action` exists, in tables of our own version. Changes nothing that is
/// there. Separate from the attempt, which is then a plain UPDATE of one row and cannot deadlock with
/// its like.
pub(super) fn create_row(action: &Action) -> String {
    format!(
        "INSERT INTO dlock_lock (action) SELECT {} FROM DUAL \
         WHERE {SCHEMA_VERSION}={VERSION} \
         ON DUPLICATE KEY UPDATE action=dlock_lock.action;",
        hex(action.as_str())
    )
}

/// The columns of a holder's facts, the same in every table that has them.
const FACTS: &str = "holder,host,pid,user,note,pod,namespace,command";

/// The holder's facts as expressions, in the order of [`FACTS`].
fn facts(holder: &Holder) -> [String; 8] {
    [
        hex(&holder.label),
        hex(&holder.host),
        holder.pid.to_string(),
        hex(&holder.user),
        hex(&holder.note),
        hex(&holder.pod),
        hex(&holder.namespace),
        hex(&holder.command),
    ]
}

/// The same as assignments.
fn assigned(holder: &Holder) -> String {
    let pairs = FACTS.split(',').zip(facts(holder));
    let assignments: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assignments.join(",")
}

/// Microseconds since the time in `column`; negative if that is yet to come.
fn ago(column: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND,{column},UTC_TIMESTAMP(6))")
}

/// The name of the gate of the action that is the expression `action`: the one place that maps an action
/// to its named lock.
///
/// Named locks are global to a server, so the database is part of it; 64 characters is the most
/// that MySQL takes, so it is a hash; SHA-1 and MD5 are gone from MySQL 9.
fn gate_name(action: &str) -> String {
    format!("CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/',{action}),256),40))")
}

/// An expression that takes the gate `name` if that is possible within `seconds`. It does not take it
/// twice, since it would have to be released as often. The result is not proof: a proxy, or a function
/// of the same name, may return 1 without locking.
fn gate_taken(name: &str, seconds: u64) -> String {
    format!("IF(IS_USED_LOCK({name})=CONNECTION_ID(),1,GET_LOCK({name},{seconds}))")
}

/// An expression that tells whether the gate `name` is ours, which is the proof: 1, 0 or NULL.
fn gate_ours(name: &str) -> String {
    format!("IS_USED_LOCK({name})=CONNECTION_ID()")
}

/// `bytes` as a hex literal.
fn hex(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write as _;
    let mut text = "x'".to_owned();
    for byte in bytes.as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        Selection, attempt, fence_check, gone, hand_off, hex, queue, release, session, sight,
        stand, survey,
    };
    use crate::lease::once::Once;
    use crate::lease::{Claim, Token};
    use crate::store::{
        Contender, Fate, Fence, Gate, Holder, Mode, Parting, Place, Run, Turn, Version, Wish,
    };

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
                pod: hostile.to_owned(),
                namespace: hostile.to_owned(),
                command: hostile.to_owned(),
            },
            ttl: Duration::from_secs(30),
            once: Some(Once::Ever(hostile.parse().expect("a legal if nasty key"))),
            history: 100,
            fence: Fence::Raised,
        };
        let claim = Claim::new([7; 16]);
        let gate = Gate::Used;
        let version = Version {
            token: Token(5),
            renewals: 6,
        };
        let fenced = true;
        let over = Mode::TakeOver { version, fenced };
        let wish = |mode| Wish { claim, mode, gate };
        let parting = Parting {
            claim,
            token: Some(Token(5)),
            gate,
            queued: true,
            keep: Some(Duration::from_secs(9)),
            run: Some(Run {
                fate: Fate::Exited(0),
                took: Duration::from_secs(1),
            }),
            handed_off: true,
        };
        let only = [contender.action.clone()];
        let turn = Turn {
            claim,
            patience: None,
            tidy: true,
        };
        for packet in [
            attempt(&contender, &wish(Mode::First), false),
            attempt(&contender, &wish(Mode::IfFree), true),
            attempt(&contender, &wish(over), false),
            queue(&contender, Place { claim, gate }),
            gone(&contender.action),
            stand(&contender, &turn, &[]),
            hand_off(&contender, claim),
            release(&contender, &parting),
            sight(&contender, Some(Place { claim, gate })),
            survey(Selection::Named(&only), gate),
            fence_check("db", &contender.action, Token(5)),
        ] {
            assert!(!packet.contains("DROP"), "{packet}");
        }
    }

    #[test]
    fn hex_of_nothing_is_an_empty_text() {
        assert_eq!(hex(""), "x''");
        assert_eq!(hex("init"), "x'696e6974'");
    }

    #[test]
    fn the_session_timeout_is_the_ttl_rounded_up() {
        assert!(session(Duration::from_millis(2_001)).contains("wait_timeout=3;"));
        assert!(session(Duration::from_secs(30)).contains("wait_timeout=30;"));
    }
}
