//! What the server says of itself: variables and counters by name, and who we are there.
//!
//! Read by SHOW, which leaves out what a server does not know, where `@@name` would be an error.

use std::collections::HashMap;

use super::super::statements::SESSIONS;
use super::session::{Rows, Session, Unanswered};

/// Global variables that some check judges.
const VARIABLES: &str = "'version','version_comment','aurora_version','read_only',\
    'super_read_only','innodb_read_only','offline_mode','autocommit','log_bin','binlog_format',\
    'innodb_flush_log_at_trx_commit','sync_binlog','rpl_semi_sync_master_enabled',\
    'rpl_semi_sync_source_enabled','wsrep_on','wsrep_provider','group_replication_group_name',\
    'group_replication_single_primary_mode','max_connections'";

/// Global counters that some check judges.
const COUNTERS: &str = "'Threads_connected','Slaves_connected','Rpl_semi_sync_master_clients',\
    'Rpl_semi_sync_source_clients','wsrep_cluster_size','wsrep_cluster_status','wsrep_ready'";

/// Values by their name in lower case.
#[derive(Debug, Default)]
pub(super) struct Settings(HashMap<String, String>);

impl Settings {
    /// Of rows of names and values.
    pub(super) fn read(rows: Rows) -> Self {
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter().flatten();
            Some((row.next()?.to_lowercase(), row.next()?))
        };
        Self(rows.into_iter().filter_map(pair).collect())
    }

    /// The value of `name`, none if the server does not know it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Whether `name` is known and on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("on") || value == "1")
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What `VERSION()` says.
    pub(super) version: String,
    /// `user@host` as the server matched it.
    pub(super) account: String,
    /// Variables and counters.
    pub(super) global: Settings,
    /// The session's cipher, empty without TLS.
    pub(super) cipher: String,
    /// Replicas that are reading, as far as the account can see.
    pub(super) replicas: u64,
    /// Sessions of our account.
    pub(super) sessions: u64,
    /// How many of them are allowed; 0: as many as there are.
    pub(super) sessions_allowed: u64,
}

impl Facts {
    /// Asks for all of it, in one round trip.
    pub(super) fn ask(session: &mut Session) -> Result<Self, Unanswered> {
        let sets = session.ask(&format!(
            "SELECT VERSION(),CURRENT_USER(),@@max_user_connections,\
             (SELECT COUNT(*) FROM {SESSIONS} AS p \
             WHERE user=LEFT(CURRENT_USER(),CHAR_LENGTH(CURRENT_USER())-\
             LOCATE('@',REVERSE(CURRENT_USER())))),\
             (SELECT COUNT(*) FROM {SESSIONS} AS p WHERE command LIKE 'Binlog Dump%');\
             SHOW GLOBAL VARIABLES WHERE Variable_name IN ({VARIABLES});\
             SHOW GLOBAL STATUS WHERE Variable_name IN ({COUNTERS});\
             SHOW SESSION STATUS WHERE Variable_name='Ssl_cipher';"
        ))?;
        let mut sets = sets.into_iter();
        let mut set = || sets.next().unwrap_or_default();
        let mut about = set().into_iter().flatten().map(Option::unwrap_or_default);
        let mut text = || about.next().unwrap_or_default();
        let (version, account) = (text(), text());
        let mut number = || text().parse().unwrap_or(0);
        let (sessions_allowed, sessions, dumps) = (number(), number(), number());
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

    /// Whether the server is a node of Galera: without a provider it is not, whatever is on.
    pub(super) fn is_galera(&self) -> bool {
        self.global.is_on("wsrep_on") && self.global.get("wsrep_provider") != Some("none")
    }

    /// Facts with these variables and counters, for tests of judgements.
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
    use super::Facts;

    #[test]
    fn names_have_no_case_and_on_has_two_spellings() {
        let facts = Facts::with(&[("Read_Only", "ON"), ("a", "1"), ("b", "OFF")]);
        assert!(facts.global.is_on("read_only") && facts.global.is_on("a"));
        assert!(!facts.global.is_on("b") && !facts.global.is_on("c"));
        assert_eq!(facts.global.number("a"), Some(1));
        assert_eq!(facts.global.number("b"), None);
    }
}
