//! The parts that several statements share: names, conditions, literals and expressions.

use crate::lease::action::Action;
use crate::store::Holder;

/// Identity of the server that executes the packet. Session ids and named locks are valid only on this server.
pub(super) const HERE: &str = "CONCAT(@@hostname,':',@@port,'/',@@server_id)";

/// Sessions on [`HERE`] that this account can see. On MySQL, a query of `information_schema.processlist` fails while
/// any session runs a statement that is not utf8mb3 text, for example with an emoji. The version comment makes MySQL
/// 8.0.22 and later read `performance_schema.processlist` instead. That list is empty if the server does not maintain
/// it, which [`SESSIONS_LISTED`] detects. MariaDB skips the comment.
pub(in crate::store::mysql) const SESSIONS: &str = "(SELECT id,user,host,command FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,user,host,command FROM performance_schema.processlist*/)";

/// Condition that [`SESSIONS`] contains all sessions of this account, so that a session of this account that is missing
/// there has ended.
pub(super) const SESSIONS_LISTED: &str = "TRUE/*!80022 AND EXISTS(\
     SELECT 1 FROM performance_schema.processlist WHERE id=CONNECTION_ID())*/";

/// First column of each SELECT. [`with_request_id`] replaces `:request` with the request id.
pub(super) const REQUEST: &str = ":request AS request";

/// Server time: microseconds since 1970-01-01 UTC.
pub(super) const SERVER_TIME: &str = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

/// Number of rows that the main statement of a packet changed. It is set immediately after that statement, and read
/// back with the request id at the end of the same packet.
pub(super) const CHANGED: &str = "@dlock_changed";

/// Condition of a grant: the action is not paused.
pub(super) const NOT_PAUSED: &str = "COALESCE(paused_until<=UTC_TIMESTAMP(6),TRUE)";

/// Returns `packet` with the request id inserted. The id identifies the response.
pub(in crate::store::mysql) fn with_request_id(packet: &str, request_id: [u8; 8]) -> String {
    packet.replace(REQUEST, &format!("{} AS request", hex(request_id)))
}

/// Adds the columns `server_version` and `server_name` to each SELECT of `packet`. They are read once in a
/// session.
pub(in crate::store::mysql) fn with_server_facts(packet: &str) -> String {
    packet.replace(
        REQUEST,
        &format!("VERSION() AS server_version,{HERE} AS server_name,{REQUEST}"),
    )
}

/// Condition that the server accepts no writes from ordinary accounts. A server whose `super_read_only` is on also has
/// `read_only` on. `read_only` is a number or, since MariaDB 12, a word.
pub(super) const READ_ONLY: &str =
    "(CONCAT(@@global.read_only) NOT IN ('0','OFF') OR @@global.innodb_read_only)";

/// Adds the column `read_only` to each SELECT of `packet`. It is 1 if the server accepts no writes from ordinary accounts.
pub(in crate::store::mysql) fn with_read_only(packet: &str) -> String {
    packet.replace(REQUEST, &format!("{READ_ONLY} AS read_only,{REQUEST}"))
}

/// Columns for the fields of a [`Holder`]. All tables with these fields use the same names.
pub(super) const FACTS: &str = "holder,host,pid,user,note,pod,namespace,command";

/// Returns the values of a holder as expressions, in the order of [`FACTS`].
pub(super) fn facts(holder: &Holder) -> [String; 8] {
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
pub(super) fn assignments(holder: &Holder) -> String {
    let pairs = FACTS.split(',').zip(facts(holder));
    let assignments: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assignments.join(",")
}

/// Returns an expression for the microseconds since the time in `column`. The result is negative if that time is in the
/// future.
pub(super) fn ago(column: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND,{column},UTC_TIMESTAMP(6))")
}

/// Returns an SQL expression for the name of an action's queue lock. `action` is an SQL expression for the name of the
/// action. No other function maps an action to its queue lock.
///
/// Named locks are global to a server, so the name depends on the database. MySQL accepts at most 64 characters, so the
/// name contains a hash. The hash is SHA-2, because MySQL 9.6 removed the built-in functions SHA1 and MD5. The byte 0, which
/// no name contains, separates the names. They are hashed as bytes, because `DATABASE()` has a character set that lacks
/// some characters of actions.
pub(super) fn queue_lock_name(action: &str) -> String {
    format!("CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00',{action}),256),40))")
}

/// Returns an SQL expression for the name of the holder lock, which the session of a holder owns. `owner_id` is an SQL
/// expression for the owner id of the holder. The name is never NULL.
pub(super) fn holder_lock_name(owner_id: &str) -> String {
    format!("CONCAT('dlock-holder:',COALESCE(HEX({owner_id}),''))")
}

/// Returns an expression that waits up to `seconds` seconds to take the named lock `name`. If the session already owns
/// the lock, the expression does not take it again, because the lock would then have to be released twice. The result
/// is not proof, because a proxy or a function with the same name may return 1 without locking.
pub(super) fn take_named_lock(name: &str, seconds: u64) -> String {
    let seconds = match seconds {
        0 => "0".to_owned(),
        _ => format!("IF({HAS_SMALL_POOL},1,{seconds})"),
    };
    format!("IF(IS_USED_LOCK({name})=CONNECTION_ID(),1,GET_LOCK({name},{seconds}))")
}

/// Condition that waits for named locks can keep all threads of the server, so that it responds to nobody. A wait keeps a
/// thread of the pool. A pool of MariaDB starts further threads for waits, up to a maximum.
pub(super) const HAS_SMALL_POOL: &str = "(/*M!100100 @@thread_handling='pool-of-threads' AND \
     @@thread_pool_max_threads<@@max_connections OR*/ FALSE)";

/// Returns an expression that proves ownership. It is 1 if this session owns the queue lock `name`, otherwise 0 or
/// NULL.
pub(super) fn owns_queue_lock(name: &str) -> String {
    format!("IS_USED_LOCK({name})=CONNECTION_ID()")
}

/// Returns `bytes` as an SQL hex literal.
pub(super) fn hex(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write as _;
    let mut text = "x'".to_owned();
    for byte in bytes.as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    text
}

/// The table of the leases in slots. It has the columns of a lease that `dlock_lock` has.
pub(super) const SLOTS: &str = "dlock_slot";

/// Returns an SQL expression for the highest token in the slots. It is above the token of the record if a holder has
/// [written a lost grant again](super::slots::reassert). Each later token must be higher.
pub(super) fn highest_slot_token(action: &Action) -> String {
    format!(
        "COALESCE((SELECT MAX(t.token) FROM dlock_slot AS t WHERE t.action={}),0)",
        hex(action.as_str())
    )
}
