//! The SQL of the protocol: the statements of each packet, and why they are safe.
//!
//! The packets use the text protocol with several statements per packet, so that an attempt takes one round trip. Every
//! text is a hex literal and every number is a number: nothing is quoted or escaped, and the character set of the
//! session does not matter. Each packet ends with a SELECT that reads back the random id of the request and the row.
//! Only that row is evidence.

mod attempt;
mod fence;
mod handoff;
mod history;
mod operator;
mod queue;
mod renew_release;
mod select;
mod upgrade;

use std::time::Duration;

pub(super) use self::attempt::attempt;
pub use self::fence::fence_check;
pub(super) use self::handoff::hand_off;
pub(super) use self::history::{entries, forget, may_record};
pub(super) use self::operator::{apply_operator_request, kill_session};
pub(super) use self::queue::{dead_entries, enqueue, wait_turn};
pub(super) use self::renew_release::{release, renew, settle};
pub use self::select::Selection;
pub(super) use self::select::{proof, select_record, survey};
pub(super) use self::upgrade::{
    add_column, begin_upgrade, end_upgrade, has_column, tables_version,
};

use super::schema;
use crate::lease::action::Action;
use crate::store::Holder;

/// Identity of the server that executes the packet. Session ids and named locks are valid only on this server.
const HERE: &str = "CONCAT(@@hostname,':',@@port,'/',@@server_id)";

/// Sessions on [`HERE`] that this account can see. MySQL's list in `information_schema` fails while a session runs a
/// statement that is not utf8mb3 text, such as an emoji. The comment makes MySQL read another list, which exists since
/// 8.0.22 and is empty if the server does not maintain it ([`SESSIONS_LISTED`] checks this). MariaDB skips the comment.
pub(super) const SESSIONS: &str = "(SELECT id,user,command FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,user,command FROM performance_schema.processlist*/)";

/// Condition that the list of sessions is complete: a session that it does not contain has ended.
const SESSIONS_LISTED: &str = "TRUE/*!80022 AND EXISTS(\
     SELECT 1 FROM performance_schema.processlist WHERE id=CONNECTION_ID())*/";

/// First column of each SELECT. [`with_request_id`] replaces `:request` with the request id.
const REQUEST: &str = ":request AS request";

/// Server time: microseconds since 1970-01-01 UTC.
const SERVER_TIME: &str = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

/// Number of rows that the main statement of a packet changed. It is set right after that statement, and read back with
/// the request id at the end of the same packet.
const CHANGED: &str = "@dlock_changed";

/// Condition of a grant: the action is not paused.
const NOT_PAUSED: &str = "COALESCE(paused_until<=UTC_TIMESTAMP(6),TRUE)";

/// Returns `packet` with the request id, which identifies the response.
pub(super) fn with_request_id(packet: &str, request_id: [u8; 8]) -> String {
    packet.replace(REQUEST, &format!("{} AS request", hex(request_id)))
}

/// Returns the settings of a new session. They are sent before its first packet.
///
/// - `autocommit`: an `init_connect` may have turned it off, and an attempt would stay uncommitted.
/// - READ COMMITTED: no gap locks, and the subquery on `dlock_schema` takes no lock.
/// - The lock wait timeouts limit the time for which a statement runs on the server after the client gave it up. They
///   do not apply to named locks.
/// - `wait_timeout`: the server ends the session of a frozen client, and releases the client's queue lock with it.
/// - `sql_mode`: MariaDB's `SIMULTANEOUS_ASSIGNMENT` and similar modes must not change the meaning of a statement. The
///   strict mode makes a value that does not fit an error, so that it is never truncated.
pub(super) fn session(ttl: Duration) -> String {
    let idle = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET SESSION autocommit=1,sql_mode='STRICT_ALL_TABLES',\
         innodb_lock_wait_timeout=1,lock_wait_timeout=1,wait_timeout={idle};"
    )
}

/// Creates the row of `action` if it does not exist and this dlock works with the tables. Does not change
/// an existing row. It is separate from the attempt, which is then a plain UPDATE of one row and cannot deadlock with
/// other attempts.
pub(super) fn create_row(action: &Action) -> String {
    format!(
        "INSERT INTO dlock_lock (action) SELECT {} FROM DUAL \
         WHERE {} ON DUPLICATE KEY UPDATE action=dlock_lock.action;",
        hex(action.as_str()),
        schema::current().accepts_tables(),
    )
}

/// Columns of a [`Holder`]. They are the same in every table that has them.
const FACTS: &str = "holder,host,pid,user,note,pod,namespace,command";

/// Returns the values of a holder as expressions, in the order of [`FACTS`].
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

/// Returns the values of a holder as assignments to the columns of [`FACTS`].
fn assignments(holder: &Holder) -> String {
    let pairs = FACTS.split(',').zip(facts(holder));
    let assignments: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assignments.join(",")
}

/// Returns an expression for the microseconds since the time in `column`. It is negative if that time is in the future.
fn ago(column: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND,{column},UTC_TIMESTAMP(6))")
}

/// Returns an expression for the name of the queue lock of the action that is the expression `action`. This is the only
/// function that maps an action to its named lock.
///
/// Named locks are global to a server, so the name contains the database. MySQL accepts at most 64 characters, so it is
/// a hash. MySQL 9 does not have SHA-1 and MD5.
fn queue_lock_name(action: &str) -> String {
    format!("CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/',{action}),256),40))")
}

/// Returns an expression that takes the queue lock `name` if that is possible within `seconds`. It does not take a lock
/// that the session already owns, because such a lock would have to be released twice. The result is not proof: a proxy
/// or a function with the same name may return 1 without locking.
fn take_queue_lock(name: &str, seconds: u64) -> String {
    format!("IF(IS_USED_LOCK({name})=CONNECTION_ID(),1,GET_LOCK({name},{seconds}))")
}

/// Returns an expression that is 1 if this session owns the queue lock `name`, otherwise 0 or NULL. This is the proof.
fn owns_queue_lock(name: &str) -> String {
    format!("IS_USED_LOCK({name})=CONNECTION_ID()")
}

/// Returns `bytes` as a hex literal.
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
        Selection, attempt, dead_entries, enqueue, fence_check, hand_off, hex, release,
        select_record, session, survey, wait_turn,
    };
    use crate::lease::once::Once;
    use crate::lease::{OwnerId, Token};
    use crate::store::{
        AcquireMode, AcquireRequest, Contender, FenceMode, HistoryOutcome, Holder, QueueEntry,
        QueueLock, ReleaseRequest, RunRecord, Version, WaitRequest,
    };

    #[test]
    fn packets_contain_user_texts_only_as_hex_literals() {
        let hostile = "x'; DROP TABLE dlock_lock; -- \\";
        let contender = Contender {
            action: hostile.parse().expect("a valid name"),
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
            once: Some(Once::Ever(hostile.parse().expect("a valid key"))),
            history: 100,
            fence: FenceMode::Advance,
        };
        let owner_id = OwnerId::new([7; 16]);
        let queue_lock = QueueLock::Available;
        let version = Version {
            token: Token(5),
            renewals: 6,
        };
        let fenced = true;
        let take_over = AcquireMode::TakeOver { version, fenced };
        let acquire = |mode| AcquireRequest {
            owner_id,
            mode,
            queue_lock,
        };
        let release_request = ReleaseRequest {
            owner_id,
            token: Some(Token(5)),
            queue_lock,
            has_entry: true,
            keep: Some(Duration::from_secs(9)),
            run: Some(RunRecord {
                outcome: HistoryOutcome::Exited(0),
                duration: Duration::from_secs(1),
            }),
            handed_off: true,
        };
        let only = [contender.action.clone()];
        let turn = WaitRequest {
            owner_id,
            limit: None,
            prune_dead: true,
        };
        for packet in [
            attempt(&contender, &acquire(AcquireMode::First), false),
            attempt(&contender, &acquire(AcquireMode::IfFree), true),
            attempt(&contender, &acquire(take_over), false),
            enqueue(
                &contender,
                QueueEntry {
                    owner_id,
                    queue_lock,
                },
            ),
            dead_entries(&contender.action),
            wait_turn(&contender, &turn, &[]),
            hand_off(&contender, owner_id),
            release(&contender, &release_request),
            select_record(
                &contender,
                Some(QueueEntry {
                    owner_id,
                    queue_lock,
                }),
            ),
            survey(Selection::Named(&only), queue_lock),
            fence_check("db", &contender.action, Token(5)),
        ] {
            assert!(!packet.contains("DROP"), "{packet}");
        }
    }

    #[test]
    fn hex_of_empty_bytes_is_an_empty_text() {
        assert_eq!(hex(""), "x''");
        assert_eq!(hex("init"), "x'696e6974'");
    }

    #[test]
    fn wait_timeout_is_the_ttl_rounded_up() {
        assert!(session(Duration::from_millis(2_001)).contains("wait_timeout=3;"));
        assert!(session(Duration::from_secs(30)).contains("wait_timeout=30;"));
    }
}
