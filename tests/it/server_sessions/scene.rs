//! A command that executes a statement with the server's own client. The statement waits for a row lock that the test
//! has, until the test ends the lock or the session is killed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, signal};
use testkit::servers::{Database, Flavour, SESSIONS, shared};

use crate::mutants::{VARIABLE, program};

/// Start of the statement that waits.
const STATEMENT: &str = "UPDATE blocked SET n=n+1";

/// Script that writes its process id to the fifo `$1` and then becomes the client `$2`.
const COMMAND: &str = r#"echo $$ > "$1"; eval "exec $2""#;

/// Script that holds the lock, writes the process ids of the holder and of itself to the fifo `$1`, and then becomes the
/// client `$2`.
const WARD: &str =
    r#"eval "$("$dlock" hold init --pid $$)"; echo $DLOCK_HOLD_PID $$ > "$1"; eval "exec $2""#;

/// Returns the option file of a client that connects to `address` as `user`.
fn option_file(database: &Database, user: &str, address: &str) -> String {
    let Database { name, password, .. } = database;
    format!(
        "[client]\n{address}\nuser={user}\npassword={password}\n\
         [mysql]\ndatabase={name}\n[mariadb-client]\ndatabase={name}\n"
    )
}

/// A table with one row, and a transaction that has locked the row.
pub(super) struct Scene {
    flavour: Flavour,
    pub(super) database: Database,
    pub(super) stage: Stage,
    lock: Conn,
    /// True if dlock is the mutant that does not end sessions.
    is_mutant: bool,
    /// Account of the client, and the option file with which it connects.
    account: String,
    options: PathBuf,
}

/// A script that has become a client of the server, and for which dlock holds the lock.
pub(super) struct Ward {
    pub(super) running: Running,
    /// Process id of the dlock in the background.
    pub(super) holder: u32,
    pub(super) pid: u32,
}

/// A client of the server.
pub(super) struct Client {
    pid: u32,
    /// The process, if the test itself has started it.
    child: Option<Child>,
}

impl Client {
    /// Kills the client with SIGKILL.
    pub(super) fn kill(self) {
        signal(self.pid, "KILL");
        if let Some(mut child) = self.child {
            child.wait().expect("the client is a child");
        }
    }
}

impl Scene {
    /// Creates the table and locks its row. The client uses dlock's account.
    pub(super) fn new(flavour: Flavour) -> Self {
        let database = shared(flavour).database("sessions");
        let (user, port) = (database.user.clone(), database.port);
        Self::with_client(flavour, database, &user, port)
    }

    /// Creates the table and locks its row. The client connects to `port` as `user`, with the password of `database`.
    pub(super) fn with_client(flavour: Flavour, database: Database, user: &str, port: u16) -> Self {
        let stage = Stage::new();
        let options = stage.path("client.cnf");
        let address = format!("protocol=tcp\nhost=127.0.0.1\nport={port}");
        let text = option_file(&database, user, &address);
        fs::write(&options, text).expect("the file can be written");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        let mut lock = database.admin_conn();
        for statement in [
            // A group accepts only tables with a primary key.
            "CREATE TABLE blocked (n INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO blocked VALUES (0)",
            "BEGIN",
            "SELECT n FROM blocked FOR UPDATE",
        ] {
            lock.query_drop(statement).expect("root has the privilege");
        }
        Self {
            flavour,
            account: user.to_owned(),
            database,
            stage,
            lock,
            is_mutant: false,
            options,
        }
    }

    /// Like [`new`](Self::new), but dlock is the mutant that does not end sessions.
    pub(super) fn without_safeguard(flavour: Flavour) -> Self {
        Self {
            is_mutant: true,
            ..Self::new(flavour)
        }
    }

    /// Like [`new`](Self::new), but the client uses the Unix socket.
    pub(super) fn on_socket(flavour: Flavour) -> Self {
        let scene = Self::new(flavour);
        let socket = shared(flavour).socket().display();
        let address = format!("socket={socket}");
        let text = option_file(&scene.database, &scene.account, &address);
        fs::write(&scene.options, text).expect("the file can be written");
        scene
    }

    pub(super) fn dlock<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Dlock {
        match self.is_mutant {
            true => Dlock::of(&program(), arguments)
                .env(VARIABLE, "sessions")
                .env("DLOCK_URL", self.database.url()),
            false => Dlock::on(&self.database, arguments),
        }
    }

    /// Returns a shell command that executes the statement.
    fn client(&self) -> String {
        format!(
            "'{}' --defaults-file='{}' -e 'SET SESSION innodb_lock_wait_timeout=600; {STATEMENT}'",
            self.flavour.client().display(),
            self.options.display()
        )
    }

    /// Starts a holder whose command is the client. Returns when the server executes the statement.
    pub(super) fn start(&self, options: &[&str]) -> (Running, Client) {
        self.start_with(options, COMMAND, &self.client())
    }

    /// Starts a holder whose command is a shell that starts the client, and then executes `after`.
    pub(super) fn start_below(&self, options: &[&str], after: &str) -> (Running, Client) {
        let script = format!("sh -c '{COMMAND}' sh \"$1\" \"$2\"; {after}");
        self.start_with(options, &script, &self.client())
    }

    /// Starts a holder whose command is a shell that executes `beside` while the client runs, and then exits with 0.
    pub(super) fn start_beside(&self, options: &[&str], beside: &str) -> (Running, Client) {
        let script = format!("sh -c '{COMMAND}' sh \"$1\" \"$2\" & {beside}; exit 0");
        self.start_with(options, &script, &self.client())
    }

    /// Like [`start`](Self::start), but dlock connects to `url`.
    pub(super) fn start_through(&self, url: &str, options: &[&str]) -> (Running, Client) {
        let dlock = self.dlock(["exec", "-a", "init"]).env("DLOCK_URL", url);
        self.start_dlock(dlock, options, COMMAND, &self.client())
    }

    /// Like [`start`](Self::start), but dlock and its command inherit `socket`.
    pub(super) fn start_inheriting(&self, socket: RawFd, options: &[&str]) -> (Running, Client) {
        let dlock = self.dlock(["exec", "-a", "init"]).inherit(socket);
        self.start_dlock(dlock, options, COMMAND, &self.client())
    }

    fn start_with(&self, options: &[&str], script: &str, client: &str) -> (Running, Client) {
        let dlock = self.dlock(["exec", "-a", "init"]);
        self.start_dlock(dlock, options, script, client)
    }

    fn start_dlock(
        &self,
        dlock: Dlock,
        options: &[&str],
        script: &str,
        client: &str,
    ) -> (Running, Client) {
        let before = self.statements();
        let ready = self.stage.fifo(&format!("ready{before}"));
        let holder = dlock
            .args(options)
            .args(["--", "sh", "-c", script, "sh"])
            .arg(&ready)
            .arg(client)
            .start();
        let pid = read_message(&ready).parse().expect("a process id");
        self.wait_for_statements(before + 1);
        (holder, Client { pid, child: None })
    }

    /// Starts a script that holds the lock and becomes the client. Returns when the session is noted.
    pub(super) fn start_ward(&self) -> Ward {
        let ready = self.stage.fifo("ready");
        let running = Dlock::of(Path::new("sh"), ["-c", WARD, "sh"])
            .arg(&ready)
            .arg(self.client())
            .env("dlock", env!("CARGO_BIN_EXE_dlock"))
            .env("DLOCK_URL", self.database.url())
            .start();
        let text = read_message(&ready);
        let (holder, pid) = text.trim().split_once(' ').expect("two words");
        self.wait_until_noted();
        self.wait_for_statements(1);
        Ward {
            running,
            holder: holder.parse().expect("a process id"),
            pid: pid.parse().expect("a process id"),
        }
    }

    /// Starts the client outside of any dlock.
    pub(super) fn client_process(&self) -> Client {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {}", self.client())])
            .stdin(Stdio::null())
            .spawn()
            .expect("sh runs");
        Client {
            pid: child.id(),
            child: Some(child),
        }
    }

    /// Returns a contender whose command prints the number of statements that the server executes at that time.
    pub(super) fn next(&self, options: &[&str]) -> Dlock {
        // The list contains the sessions of the client's own account.
        let query = format!(
            "SELECT CONCAT(COUNT(*),\" statements\") FROM {SESSIONS} AS s WHERE info LIKE \"{STATEMENT}%\""
        );
        self.dlock(["exec", "-a", "init"])
            .args(options)
            .arg("--")
            .arg(self.flavour.client())
            .arg(format!("--defaults-file={}", self.options.display()))
            .args(["--skip-column-names", "-e", &query])
    }

    /// Returns the number of sessions that execute the statement.
    #[track_caller]
    pub(super) fn statements(&self) -> usize {
        let query = format!(
            "SELECT COUNT(*) FROM {SESSIONS} AS s WHERE user='{}' AND info LIKE '{STATEMENT}%'",
            self.account
        );
        let count = self.database.admin_conn().query_first(query);
        count.expect("root has the privilege").expect("a number")
    }

    #[track_caller]
    pub(super) fn wait_for_statements(&self, count: usize) {
        eventually("the server executes the statement", || {
            self.statements() == count
        });
    }

    #[track_caller]
    pub(super) fn execute(&self, statement: &str) {
        let outcome = self.database.admin_conn().query_drop(statement);
        outcome.expect("root has the privilege");
    }

    fn is(&self, condition: &str) -> bool {
        let query = format!("SELECT COUNT(*) FROM dlock_lock WHERE {condition}");
        let count: Option<usize> =
            (self.database.admin_conn().query_first(query)).expect("root has the privilege");
        count == Some(1)
    }

    /// Returns true if the record contains sessions.
    pub(super) fn is_noted(&self) -> bool {
        self.is("sessions IS NOT NULL")
    }

    #[track_caller]
    pub(super) fn wait_until_noted(&self) {
        eventually("the session is noted", || self.is_noted());
    }

    fn count(&self, table: &str) -> u64 {
        let query = format!("SELECT COUNT(*) FROM {table}");
        let count = self.database.admin_conn().query_first(query);
        count.expect("root has the privilege").expect("a number")
    }

    #[track_caller]
    pub(super) fn wait_for_waiters(&self, count: u64) {
        eventually("the contenders wait", || {
            self.count("dlock_waiter") == count
        });
    }

    /// Waits until the history contains `count` runs.
    #[track_caller]
    pub(super) fn wait_for_runs(&self, count: u64) {
        eventually("the runs are recorded", || {
            self.count("dlock_history") == count
        });
    }

    #[track_caller]
    pub(super) fn wait_for_renewals(&self, count: u64) {
        eventually("the lease is renewed", || {
            self.is(&format!("renewals>={count}"))
        });
    }

    /// Makes all updates of the record fail.
    #[track_caller]
    pub(super) fn refuse_updates(&self) {
        self.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON dlock_lock FOR EACH ROW SIGNAL SQLSTATE '45000'",
        );
    }

    /// Locks the record, until `count` sessions of dlock have waited for it, one after the other.
    #[track_caller]
    pub(super) fn lock_record_until_waited(&mut self, count: usize) {
        let mut lock = self.database.admin_conn();
        for statement in ["BEGIN", "SELECT action FROM dlock_lock FOR UPDATE"] {
            lock.query_drop(statement).expect("root has the privilege");
        }
        self.unlock();
        let query = format!(
            "SELECT id FROM {SESSIONS} AS s WHERE user='{}' AND info LIKE '%UPDATE dlock_lock%'",
            self.account
        );
        let mut waited = BTreeSet::new();
        eventually("the sessions have waited", || {
            let ids: Vec<u64> = lock.query(&query).expect("root has the privilege");
            waited.extend(ids);
            waited.len() >= count
        });
        lock.query_drop("ROLLBACK").expect("a transaction");
    }

    /// Ends the transaction that has locked the row.
    pub(super) fn unlock(&mut self) {
        self.lock.query_drop("ROLLBACK").expect("a transaction");
    }

    /// Returns true if the statement has been committed.
    pub(super) fn is_updated(&mut self) -> bool {
        let number = self.lock.query_first("SELECT n FROM blocked");
        number.expect("the table exists") == Some(1)
    }
}
