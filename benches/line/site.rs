//! A MariaDB or MySQL, the account that dlock has there, and what an onlooker sees of the line.

use std::cell::RefCell;
use std::process::Command;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::alone;
use crate::servers::{Database, Flavour, Server};

/// The program as `cargo bench` builds it: with the release profile.
const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Room for a thousand contenders and the onlooker.
const CONNECTIONS: &str = "--max-connections=1100";

/// A running server with a database whose tables are there.
pub(crate) struct Site {
    server: Server,
    database: Database,
    onlooker: RefCell<Conn>,
}

impl Site {
    pub(crate) fn start(flavour: Flavour) -> Self {
        let server = Server::start(flavour, &[CONNECTIONS]);
        let database = server.database("bench");
        let mut setup = alone(DLOCK);
        setup.arg("setup").env("DLOCK_URL", database.url());
        assert!(setup.status().expect("dlock runs").success(), "dlock setup");
        let site = Self {
            onlooker: RefCell::new(database.admin_conn()),
            server,
            database,
        };
        site.drop("CREATE TABLE bench_commit (id INT PRIMARY KEY, value INT NOT NULL)");
        site.drop("INSERT INTO bench_commit VALUES (1,0)");
        // A server that may not open enough files takes fewer.
        let room: u64 = site.one("SELECT @@GLOBAL.max_connections");
        assert!(
            room > 1000,
            "the server takes only {room} connections: raise ulimit -n"
        );
        site
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.server.flavour() {
            Flavour::MariaDb => "MariaDB",
            Flavour::MySql => "MySQL",
        }
    }

    pub(crate) fn version(&self) -> &str {
        self.server.version()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// `dlock exec ARGUMENTS…` here, over TCP.
    pub(crate) fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = alone(DLOCK);
        command.arg("exec").args(arguments);
        command.env("DLOCK_URL", self.database.url());
        command
    }

    /// How many stand at a gate, in the server's own view.
    pub(crate) fn standing(&self) -> usize {
        self.one(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db=DATABASE() AND state='User lock'",
        )
    }

    /// The holders' names in the line of `action`, in its order.
    pub(crate) fn places(&self, action: &str) -> Vec<String> {
        self.onlooker
            .borrow_mut()
            .query(format!(
                "SELECT CAST(w.holder AS CHAR) FROM dlock_waiter w WHERE w.action='{action}' \
                 AND NOT EXISTS (SELECT 1 FROM dlock_lock l WHERE l.claim=w.claim) \
                 ORDER BY w.position"
            ))
            .expect("the server answers")
    }

    /// How often each action's lease has been renewed.
    pub(crate) fn renewals(&self) -> Vec<(String, u64)> {
        self.onlooker
            .borrow_mut()
            .query("SELECT CAST(action AS CHAR),renewals FROM dlock_lock")
            .expect("the server answers")
    }

    /// How long ago the lease of `action` was granted or renewed.
    pub(crate) fn renewed_ago(&self, action: &str) -> Duration {
        Duration::from_micros(self.one(&format!(
            "SELECT TIMESTAMPDIFF(MICROSECOND,renewed_at,UTC_TIMESTAMP(6)) FROM dlock_lock \
             WHERE action='{action}'"
        )))
    }

    /// The server's counters whose names are like `pattern`; asking is one question more.
    pub(crate) fn counters(&self, pattern: &str) -> Vec<(String, i64)> {
        let rows: Vec<(String, String)> = self
            .onlooker
            .borrow_mut()
            .query(format!(
                "SHOW GLOBAL STATUS WHERE variable_name RLIKE '{pattern}'"
            ))
            .expect("the server answers");
        rows.into_iter()
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect()
    }

    /// The time that one UPDATE of one row takes, commit included.
    pub(crate) fn commit(&self) -> Duration {
        let start = Instant::now();
        self.drop("UPDATE bench_commit SET value=value+1 WHERE id=1");
        start.elapsed()
    }

    fn drop(&self, statement: &str) {
        self.onlooker
            .borrow_mut()
            .query_drop(statement)
            .expect("the server answers");
    }

    fn one<T: mysql::prelude::FromRow>(&self, query: &str) -> T {
        let row = self.onlooker.borrow_mut().query_first(query);
        row.expect("the server answers").expect("one row")
    }
}
