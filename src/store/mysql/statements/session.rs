//! The settings of a session, and the checks of the server: it accepts writes, and is a usable member of its group.

use std::time::Duration;

use super::super::schema::quoted;
use super::fragments::{READ_ONLY, REQUEST, with_read_only};

/// Text in the error of [`MemberCheck::Suspect`].
const OTHER_TRANSACTIONS: &str = "dlock_transactions";

/// Text in the error of [`MemberCheck::Detect`].
const IN_GROUP: &str = "dlock_group";

/// Function in [`MemberCheck::Suspect`] that TiDB does not have.
const MYSQL_FUNCTION: &str = "GTID_SUBSET";

/// Text in the error of [`MemberCheck::Require`].
pub(in crate::store::mysql) const NOT_USABLE: &str = "dlock_member";

/// Text in the error of [`WriteCheck::Require`].
pub(in crate::store::mysql) const IS_READ_ONLY: &str = "dlock_read_only";

/// A check in the settings of a session that the server accepts writes from ordinary accounts. A check that fails sets
/// `sql_mode` to an invalid value, so that the server executes nothing of the packet.
///
/// A server that is read-only refuses the writes of ordinary accounts, but not those of an account with `SUPER` or
/// `CONNECTION_ADMIN` (MySQL), or `READ ONLY ADMIN` (MariaDB). Such an account could otherwise be granted a lease on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::mysql) enum WriteCheck {
    /// No check, for packets that change no table.
    Skip,
    /// Fails with [`IS_READ_ONLY`] if the server is read-only.
    Require,
}

/// A check in the settings of a session on a MySQL server. A check that fails sets `sql_mode` to an invalid value, so
/// that the server executes nothing of the packet. MariaDB, which has no Group Replication, skips the comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::mysql) enum MemberCheck {
    /// No check.
    Skip,
    /// No check, because the server is not MySQL, and executes the contents of MySQL's version comments although it lacks
    /// functions and tables in them. See [`without_version_comments`].
    Foreign,
    /// Fails with [`OTHER_TRANSACTIONS`] if the server has executed a transaction with the GTID of another server. A
    /// group requires GTIDs, and the transactions of a group have the GTIDs of the group, so no other server has the
    /// tables of a group. This check reads no table. [`Detect`](Self::Detect) costs about half a millisecond, and even
    /// its tables that the server does not read cost most of this time.
    Suspect,
    /// Fails with [`IN_GROUP`] if the server is configured for Group Replication. This check needs no privilege.
    Detect,
    /// Fails with [`NOT_USABLE`] if the server is not an ONLINE member of a group, or if the members that it reaches
    /// are not a majority. A member outside its group may accept writes that the group never gets, and without a
    /// majority each write waits for ever. The account needs SELECT on `replication_group_members`.
    Require,
}

impl MemberCheck {
    /// Returns the next check after the server has refused this check with `message`. None if another statement failed,
    /// or if there is no further check.
    pub(in crate::store::mysql) fn next(self, message: &str) -> Option<Self> {
        match self {
            Self::Suspect if message.contains(OTHER_TRANSACTIONS) => Some(Self::Detect),
            Self::Suspect if message.contains(MYSQL_FUNCTION) => Some(Self::Foreign),
            Self::Detect if message.contains(IN_GROUP) => Some(Self::Require),
            _ => None,
        }
    }
}

/// Sets `sql_mode`, or fails as `check` and then `writes` specify.
fn sql_mode(check: MemberCheck, writes: WriteCheck) -> String {
    const MODE: &str = "'STRICT_ALL_TABLES'";
    let mode = match writes {
        WriteCheck::Skip => MODE.to_owned(),
        WriteCheck::Require => format!("IF({READ_ONLY},'{IS_READ_ONLY}',{MODE})"),
    };
    match check {
        MemberCheck::Skip | MemberCheck::Foreign => format!("sql_mode={mode}"),
        MemberCheck::Suspect => format!(
            "sql_mode=/*!80000 IF(@@gtid_mode<>'ON' OR {MYSQL_FUNCTION}(@@global.gtid_executed,\
             CONCAT(@@server_uuid,':1-9223372036854775806')),*/{mode}/*!80000 ,'{OTHER_TRANSACTIONS}')*/"
        ),
        MemberCheck::Detect => format!(
            "sql_mode=/*!80000 IF((SELECT COUNT(*) FROM information_schema.plugins \
             WHERE plugin_name='group_replication' AND plugin_status='ACTIVE')=0 OR (SELECT COUNT(*) \
             FROM performance_schema.global_variables WHERE variable_name='group_replication_group_name' \
             AND variable_value<>'')=0,*/{mode}/*!80000 ,'{IN_GROUP}')*/"
        ),
        MemberCheck::Require => format!(
            "sql_mode=/*!80000 IF(COALESCE((SELECT SUM(member_id=@@server_uuid AND member_state='ONLINE')>0 \
             AND SUM(member_state<>'UNREACHABLE')*2>COUNT(*) \
             FROM performance_schema.replication_group_members),TRUE),*/{mode}/*!80000 ,'{NOT_USABLE}')*/"
        ),
    }
}

/// The name of the variable of the isolation level on MySQL.
const ISOLATION: &str = "transaction_isolation";

/// The name of the variable that makes transactions read-only, on MySQL.
const READ_ONLY_TRANSACTIONS: &str = "transaction_read_only";

/// A statement that has no effect.
pub(super) const NO_EFFECT: &str = "DO 0";

/// Returns `packet` for a server that executes the contents of MySQL's version comments, whatever their version, but is
/// not MySQL: turns them into plain comments, except for those without which a statement is incomplete. TiDB's
/// documentation describes this behaviour.
pub(in crate::store::mysql) fn without_version_comments(packet: &str) -> String {
    let incomplete = [ISOLATION, READ_ONLY_TRANSACTIONS, NO_EFFECT];
    let packet = incomplete.iter().fold(packet.to_owned(), |packet, text| {
        packet.replace(&format!("/*!80000 {text}*/"), text)
    });
    packet.replace("/*!8", "/*8")
}

/// Returns the statement that checks the server again on an open session.
pub(in crate::store::mysql) fn check_again(check: MemberCheck, writes: WriteCheck) -> String {
    format!("SET SESSION {};", sql_mode(check, writes))
}

/// Checks the server as `check` specifies, and reads the column `read_only`. Changes only a setting of the session. The
/// SELECT has a table, because a Galera node that is not ready refuses each SELECT with a table (error 1047).
pub(in crate::store::mysql) fn check_server(check: MemberCheck) -> String {
    let select = with_read_only(&format!("SELECT {REQUEST} FROM (SELECT 1) AS one;"));
    format!("{}{select}", check_again(check, WriteCheck::Skip))
}

/// Reads the name of the Galera cluster or of the group that the server belongs to, or the name of the server. The
/// variable `wsrep_on` is off on a server that belongs to no cluster.
pub(in crate::store::mysql) const CLUSTER: &str = "SELECT COALESCE(\
     /*M!100000 (SELECT MAX(s.variable_value) FROM information_schema.global_status AS s \
     JOIN information_schema.global_variables AS v ON v.variable_name='wsrep_on' AND v.variable_value='ON' \
     WHERE s.variable_name='wsrep_cluster_state_uuid')*/\
     /*!80000 (SELECT NULLIF(MAX(variable_value),'') FROM performance_schema.global_variables \
     WHERE variable_name='group_replication_group_name')*/\
     ,CONCAT(@@hostname,':',@@port,'/',@@server_id)) AS cluster;";

/// Reads the members of the group that the server knows. Returns no row if the server has no such plugin.
pub(in crate::store::mysql) const GROUP_MEMBERS: &str = "SELECT member_id=@@server_uuid,member_state,member_role,\
     CONCAT(member_host,':',member_port) FROM performance_schema.replication_group_members;";

/// Returns the statements that set up a new session for `database`, which is empty if none is used. They are sent at the beginning of the first packet of the session.
///
/// The settings of the server and its `init_connect` must not change what a statement of dlock does:
///
/// - `autocommit`: an attempt would not be committed. The change from 0 to 1 ends a transaction that `init_connect` has
///   started. A ROLLBACK would fail on a Galera node without a majority. `completion_type`: CHAIN would start a transaction after each COMMIT
///   or ROLLBACK, so that the renewals that follow would not be committed, and RELEASE would end the session.
/// - `sql_safe_updates`, `sql_select_limit`, `sql_big_selects`, `tx_read_only`, `sql_auto_is_null`, `unique_checks` and the
///   character sets: statements would be refused, find other rows, or return nothing.
/// - READ COMMITTED: avoids gap locks, and the subquery on `dlock_schema` takes no lock. The variable has one name on all
///   MariaDB servers, and another name on MySQL.
/// - The lock wait timeouts limit how long a statement waits on the server after the client has stopped waiting for its
///   response. They do not apply to named locks.
/// - `innodb_snapshot_isolation`: MariaDB 11.6.2 and later turn it on. An UPDATE then fails with error 1020 instead of
///   waiting if another session changes the row at the same time. The comment is code only for these versions, because
///   other servers do not have the variable.
/// - `wait_timeout`: the server ends the session of a frozen client, which also releases the client's queue lock.
/// - USE: `init_connect` may have changed the database. Accounts that skip `init_connect` would then use other tables. The
///   statement comes last, because the name of the database is in utf8mb4.
/// - `sql_mode`: MariaDB's `SIMULTANEOUS_ASSIGNMENT` and similar modes must not change the meaning of a statement. In
///   strict mode, a value that does not fit into its column causes an error and is never truncated.
pub(in crate::store::mysql) fn session(
    database: &str,
    ttl: Duration,
    check: MemberCheck,
    writes: WriteCheck,
) -> String {
    let idle = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let use_database = match database {
        "" => String::new(),
        name => format!("USE {};", quoted(name)),
    };
    format!(
        "SET SESSION /*!80000 {ISOLATION}*//*M! tx_isolation*/='READ-COMMITTED',autocommit=0,autocommit=1,{},\
         completion_type='NO_CHAIN',/*!80000 {READ_ONLY_TRANSACTIONS}*//*M! tx_read_only*/=OFF,\
         sql_safe_updates=OFF,sql_big_selects=ON,sql_select_limit=18446744073709551615,sql_auto_is_null=OFF,\
         unique_checks=ON,character_set_client=utf8mb4,character_set_results=utf8mb4,\
         collation_connection=utf8mb4_general_ci,innodb_lock_wait_timeout=1,lock_wait_timeout=1,\
         /*M!110602 innodb_snapshot_isolation=OFF,*/wait_timeout={idle};{use_database}",
        sql_mode(check, writes)
    )
}
