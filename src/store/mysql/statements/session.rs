//! The settings of a session.

use std::time::Duration;

/// Returns the statements that set up a new session. They are sent at the beginning of the first packet of the session.
///
/// - `autocommit`: the server or its `init_connect` may turn it off, and an attempt would then not be committed.
/// - READ COMMITTED: avoids gap locks, and the subquery on `dlock_schema` takes no lock.
/// - The lock wait timeouts limit how long a statement waits on the server after the client has stopped waiting for its
///   response. They do not apply to named locks.
/// - `innodb_snapshot_isolation`: MariaDB 11.6.2 and later turn it on. An UPDATE then fails with error 1020 instead of
///   waiting if another session changes the row at the same time. The comment is code only for these versions, because
///   other servers do not have the variable.
/// - `wait_timeout`: the server ends the session of a frozen client, which also releases the client's queue lock.
/// - `sql_mode`: MariaDB's `SIMULTANEOUS_ASSIGNMENT` and similar modes must not change the meaning of a statement. In
///   strict mode, a value that does not fit into its column causes an error and is never truncated.
pub(in crate::store::mysql) fn session(ttl: Duration) -> String {
    let idle = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET SESSION autocommit=1,sql_mode='STRICT_ALL_TABLES',\
         innodb_lock_wait_timeout=1,lock_wait_timeout=1,\
         /*M!110602 innodb_snapshot_isolation=OFF,*/wait_timeout={idle};"
    )
}
