//! The identity of the database, and the condition that the database has lost nothing that a contender has read.

use super::fragments::HERE;
use super::sessions::STARTED;
use crate::store::{LastRead, Version};

/// Variable of a session: the identity of the database that executes the packet (see
/// [`DatabaseId`](crate::store::DatabaseId)). NULL before [`read_database`].
pub(super) const DATABASE: &str = "@dlock_database";

/// Sets [`DATABASE`] unless this session has already set it, because the look-up takes longer than other statements. It
/// is a hash of the state UUID of the Galera cluster, of the name of the MySQL group, or of [`HERE`]. All Galera clusters
/// have the same name by default. A number of 48 bits is exact in every comparison. A group requires GTIDs. The start
/// time of a single server belongs to its identity: a server that starts again may have an older state of its files, from
/// a snapshot or because its commits are not durable. The restore of a whole cluster does not change its identity.
pub(super) fn read_database() -> String {
    format!("SET {DATABASE}=COALESCE({DATABASE},{});", database())
}

/// Returns the expression for the identity that [`read_database`] stores.
pub(super) fn database() -> String {
    format!(
        "CAST(CONV(LEFT(SHA2(COALESCE(\
         /*M! IF((SELECT COUNT(*) FROM information_schema.global_variables \
         WHERE variable_name='WSREP_ON' AND variable_value='ON')>0,(SELECT variable_value \
         FROM information_schema.global_status WHERE variable_name='WSREP_CLUSTER_STATE_UUID'),NULL),*/\
         /*!80000 IF(@@gtid_mode='ON',(SELECT MAX(variable_value) FROM performance_schema.global_variables \
         WHERE variable_name='group_replication_group_name' AND variable_value<>''),NULL),*/\
         CONCAT({HERE},'/',{STARTED})),256),12),16,10) AS UNSIGNED)"
    )
}

/// Returns the condition, which begins with AND, that the database is the one of `last_read` and that the row is not
/// older. The session must have read the database. Empty if there is no last read.
pub(super) fn not_before(last_read: Option<LastRead>) -> String {
    let Some(LastRead {
        database, version, ..
    }) = last_read
    else {
        return String::new();
    };
    let Version { token, renewals } = version;
    let database = database.map_or_else(String::new, |id| format!(" AND {DATABASE}={}", id.0));
    format!("{database} AND (token>{token} OR token={token} AND renewals>={renewals})")
}
