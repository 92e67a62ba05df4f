//! The sessions of the application on the server.

use std::fmt;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::servers::SESSIONS;
use testkit::sql::Sql;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// `Query` while a statement runs, `Sleep` while the session is idle or rolls back without a statement, and on
    /// MariaDB `Killed` after a KILL.
    pub(crate) command: String,
    pub(crate) state: String,
    pub(crate) statement: String,
}

impl Session {
    /// Returns true if the session is not idle. It then runs a statement, rolls back, or is ending.
    pub(crate) fn is_active(&self) -> bool {
        self.command != "Sleep"
    }

    /// Returns true if the server stops the statement. MySQL shows a killed statement that rolls back only by its state.
    pub(crate) fn is_stopping(&self) -> bool {
        self.command == "Killed" || self.state == "query end"
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.statement.chars().take(60).collect();
        let Self {
            id, command, state, ..
        } = self;
        write!(f, "session {id} ({command}, {state:?}) {start:?}")
    }
}

/// Returns the sessions whose database is `name`, except the session of `admin`. On MySQL, only `performance_schema` lists
/// a killed session until its rollback has ended.
pub(crate) fn sessions(admin: &mut Conn, name: &str) -> Vec<Session> {
    let query = format!(
        "SELECT id, command, COALESCE(state, ''), COALESCE(info, '') \
         FROM {SESSIONS} AS s WHERE db = '{name}' AND user <> 'root' ORDER BY id"
    );
    let sessions = admin.query_map(query, |(id, command, state, statement)| Session {
        id,
        command,
        state,
        statement,
    });
    sessions.expect("root can read the process list")
}

/// Returns true if the idle session `id` has a transaction. The server may return a state that is 0.1 s old.
pub(crate) fn has_transaction(admin: &mut Conn, id: u64) -> bool {
    let query = format!(
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {id}"
    );
    let count: Option<u32> = admin.first(query);
    count != Some(0)
}
