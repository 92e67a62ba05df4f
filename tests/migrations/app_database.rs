//! The databases of one round: one for dlock, and one for the application, with the same account. A session of a command
//! therefore has a different database than a session of dlock, and the harness needs no other information to tell them
//! apart.

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::servers::{Database, Server};
use testkit::sql::Sql;

use crate::options::Options;
use crate::sessions::sessions;

pub(crate) struct AppDatabase {
    /// The database of dlock, with the account that dlock and the commands use.
    pub(crate) dlock: Database,
    pub(crate) name: String,
}

impl AppDatabase {
    pub(crate) fn new(server: &Server, options: &Options) -> Self {
        let dlock = server.database("migrations");
        let name = format!("{}_app", dlock.name);
        let pattern = name.replace('_', "\\_");
        dlock.run(format!("CREATE DATABASE {name}"));
        dlock.grant(&format!("ALL ON `{pattern}`.*"));
        Dlock::of(&options.dlock, ["setup", "-q"])
            .env("DLOCK_URL", dlock.url())
            .expect(0, "", "");
        Self { dlock, name }
    }

    /// Opens a connection as root with the application's database. A statement of this connection fails if it has to
    /// wait for a statement of the application for seconds.
    pub(crate) fn admin(&self) -> Conn {
        let mut admin = self.dlock.admin_conn();
        admin.run(format!(
            "USE {}; SET SESSION lock_wait_timeout = 20",
            self.name
        ));
        admin
    }

    /// Waits until the record of the lock contains the sessions of the holder's command, or the holder has no lease. dlock
    /// needs up to 0.2 s for this on an idle machine, and does not promise to end the session if it is killed before.
    pub(crate) fn wait_until_recorded(&self) {
        let missing = "dlock_lock WHERE owner_id IS NOT NULL AND sessions IS NULL";
        self.dlock.wait_until(format!("COUNT(*)=0 FROM {missing}"));
    }

    /// Ends the sessions that the round has left in the application's database.
    pub(crate) fn end_sessions(&self) {
        let mut admin = self.admin();
        eventually("all sessions of the application have ended", || {
            let remaining = sessions(&mut admin, &self.name);
            for session in &remaining {
                // KILL fails if the session has ended by now.
                let _ = admin.query_drop(format!("KILL {}", session.id));
            }
            remaining.is_empty()
        });
    }
}

impl Drop for AppDatabase {
    fn drop(&mut self) {
        let Database { name, user, .. } = &self.dlock;
        let mut admin = self.dlock.admin_conn();
        for statement in [
            format!("DROP DATABASE {}", self.name),
            format!("DROP DATABASE {name}"),
            format!("DROP USER '{user}'@'%'"),
        ] {
            // A failed round may have left a statement. The server removes everything when it stops.
            let _ = admin.query_drop(statement);
        }
    }
}
