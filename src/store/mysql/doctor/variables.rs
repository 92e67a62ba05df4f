//! Facts that the server reports about itself: variables and counters by name, and the account of this
//! session.
//!
//! Variables and counters are read with SHOW, which omits a variable that does not exist on the server. Reading
//! `@@name` would cause an error.

use std::collections::HashMap;

use super::super::statements::SESSIONS;
use super::session::{QueryError, Rows, Session};

/// Global variables that the checks need.
const VARIABLES: &str = "'version','version_comment','aurora_version','read_only',\
    'super_read_only','innodb_read_only','offline_mode','autocommit','log_bin','binlog_format',\
    'innodb_flush_log_at_trx_commit','sync_binlog','rpl_semi_sync_master_enabled',\
    'rpl_semi_sync_source_enabled','wsrep_on','wsrep_provider','wsrep_cluster_address',\
    'wsrep_node_address','wsrep_desync','group_replication_group_name',\
    'group_replication_single_primary_mode','max_connections','thread_handling','thread_pool_max_threads'";

/// Global counters that the checks need.
const COUNTERS: &str = "'Threads_connected','Slaves_connected','Rpl_semi_sync_master_clients',\
    'Rpl_semi_sync_source_clients','wsrep_cluster_size','wsrep_cluster_status','wsrep_ready'";

/// Values of variables and counters, by name in lower case.
#[derive(Debug, Default)]
pub(super) struct Settings(HashMap<String, String>);

impl Settings {
    /// Creates the settings from rows of names and values.
    pub(super) fn read(rows: Rows) -> Self {
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter().flatten();
            Some((row.next()?.to_lowercase(), row.next()?))
        };
        Self(rows.into_iter().filter_map(pair).collect())
    }

    /// Returns the value of `name`. None if the server has no such variable or counter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of `name` as a number. None if the server has no such variable or counter, or
    /// if the value is not a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Returns true if the server has the variable or counter `name` and its value is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("on") || value == "1")
    }
}

/// All facts about the server that the checks need.
#[derive(Debug, Default)]
pub(super) struct ServerFacts {
    /// The result of `VERSION()`.
    pub(super) version: String,
    /// Account of the session, as `user@host` in the server's grant tables.
    pub(super) account: String,
    /// Variables and counters.
    pub(super) global: Settings,
    /// Cipher of the session. Empty without TLS.
    pub(super) cipher: String,
    /// Number of connected replicas that the account can see.
    pub(super) replicas: u64,
    /// Number of sessions of this account.
    pub(super) sessions: u64,
    /// Maximum number of sessions of this account. 0 means no limit.
    pub(super) sessions_allowed: u64,
}

impl ServerFacts {
    /// Queries the server for all facts in two round trips. The statements of the first one are executed even by a
    /// Galera node that has lost its cluster. Such a node refuses the second one, and the numbers of sessions are then
    /// 0.
    pub(super) fn query(session: &mut Session) -> Result<Self, QueryError> {
        let sets = session.query(&format!(
            "SELECT VERSION(),CURRENT_USER(),@@max_user_connections;\
             SHOW GLOBAL VARIABLES WHERE Variable_name IN ({VARIABLES});\
             SHOW GLOBAL STATUS WHERE Variable_name IN ({COUNTERS});\
             SHOW SESSION STATUS WHERE Variable_name='Ssl_cipher';"
        ))?;
        let counts = session.query(&format!(
            "SELECT (SELECT COUNT(*) FROM {SESSIONS} AS p \
             WHERE user=LEFT(CURRENT_USER(),CHAR_LENGTH(CURRENT_USER())-\
             LOCATE('@',REVERSE(CURRENT_USER())))),\
             (SELECT COUNT(*) FROM {SESSIONS} AS p WHERE command LIKE 'Binlog Dump%');"
        ));
        let counts = match counts {
            Ok(counts) => counts,
            Err(QueryError::Refused(_)) => Vec::new(),
            Err(lost) => return Err(lost),
        };
        let mut sets = sets.into_iter();
        let mut set = || sets.next().unwrap_or_default();
        let mut about = set().into_iter().flatten().map(Option::unwrap_or_default);
        let mut text = || about.next().unwrap_or_default();
        let (version, account) = (text(), text());
        let sessions_allowed = text().parse().unwrap_or(0);
        let mut counts = (counts.into_iter().flatten().flatten()).map(|count| {
            count
                .and_then(|count| count.parse::<u64>().ok())
                .unwrap_or(0)
        });
        let mut count = || counts.next().unwrap_or(0);
        let (sessions, dumps) = (count(), count());
        let mut global = set();
        global.append(&mut set());
        let global = Settings::read(global);
        let cipher = Settings::read(set());
        Ok(Self {
            version,
            account,
            replicas: global.number("slaves_connected").unwrap_or(0).max(dumps),
            global,
            cipher: cipher.get("ssl_cipher").unwrap_or_default().to_owned(),
            sessions,
            sessions_allowed,
        })
    }

    /// Returns true if the server is MariaDB, which includes its name in its version.
    pub(super) fn is_mariadb(&self) -> bool {
        self.version.to_lowercase().contains("mariadb")
    }

    /// Returns true if the server is a Galera node. A server without a provider is not a Galera node,
    /// even if `wsrep_on` is set.
    pub(super) fn is_galera(&self) -> bool {
        self.global.is_on("wsrep_on") && self.global.get("wsrep_provider") != Some("none")
    }

    /// Returns true if the server is a Galera node on which an operator has turned off the replication of its writes.
    pub(super) fn has_left_galera(&self) -> bool {
        let provider = self.global.get("wsrep_provider");
        !self.global.is_on("wsrep_on") && provider.is_some_and(|it| !["", "none"].contains(&it))
    }

    /// Creates facts with these variables and counters, for unit tests of the checks.
    #[cfg(test)]
    pub(super) fn with(global: &[(&str, &str)]) -> Self {
        let text = |text: &str| Some(text.to_owned());
        let rows = global
            .iter()
            .map(|(name, value)| vec![text(name), text(value)]);
        Self {
            global: Settings::read(rows.collect()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerFacts;

    #[test]
    fn names_ignore_case_and_on_has_two_spellings() {
        let facts = ServerFacts::with(&[("Read_Only", "ON"), ("a", "1"), ("b", "OFF")]);
        assert!(facts.global.is_on("read_only") && facts.global.is_on("a"));
        assert!(!facts.global.is_on("b") && !facts.global.is_on("c"));
        assert_eq!(facts.global.number("a"), Some(1));
        assert_eq!(facts.global.number("b"), None);
    }
}
