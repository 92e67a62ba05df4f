//! A command that executes a statement with the server's own client. The statement waits for a row lock that the test
//! has, until the test ends the lock or the session is killed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mysql::Conn;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message};
use testkit::servers::{Database, Flavour, SESSIONS, shared};
use testkit::sql::Sql;

use crate::mutants::{VARIABLE, program};

/// Start of the statement that waits.
const STATEMENT: &str = "UPDATE blocked SET n=n+1";

/// Script that writes its process id to the fifo `$1` and then becomes the client `$2`.
pub(super) const COMMAND: &str = r#"echo $$ > "$1"; eval "exec $2""#;

/// Script that holds the lock, writes the process ids of the holder and of itself to the fifo `$1`, and then becomes the
/// client `$2`.
const WARD: &str =
    r#"eval "$("$dlock" hold init --pid $$)"; echo $DLOCK_HOLD_PID $$ > "$1"; eval "exec $2""#;

/// A table with one row, and a transaction that has locked the row.
pub(super) struct Scene {
    flavour: Flavour,
    pub(super) database: Database,
    pub(super) stage: Stage,
    lock: Conn,
    /// True if dlock is the mutant that does not end sessions.
    pub(super) is_mutant: bool,
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

/// Returns the script of a command that starts the client, and then executes `after`.
pub(super) fn below(after: &str) -> String {
    format!("sh -c '{COMMAND}' sh \"$1\" \"$2\"; {after}")
}

/// Returns the script of a command that executes `beside` while the client runs, and then exits with 0.
pub(super) fn beside(beside: &str) -> String {
    format!("sh -c '{COMMAND}' sh \"$1\" \"$2\" & {beside}; exit 0")
}

impl Scene {
    /// Creates the table on the shared server, and locks its row. The client uses dlock's account.
    pub(super) fn new(flavour: Flavour) -> Self {
        Self::on(flavour, shared(flavour).database("sessions"))
    }

    /// Creates the table in `database`, and locks its row. The client uses dlock's account.
    pub(super) fn on(flavour: Flavour, database: Database) -> Self {
        let (user, port) = (database.user.clone(), database.port);
        Self::with_client(flavour, database, &user, port)
    }

    /// Creates the table and locks its row. The client connects to `port` as `user`, with the password of `database`.
    pub(super) fn with_client(flavour: Flavour, database: Database, user: &str, port: u16) -> Self {
        database.set_up();
        let mut lock = database.admin_conn();
        // A group accepts only tables with a primary key.
        lock.run(
            "CREATE TABLE blocked (n INT PRIMARY KEY) ENGINE=InnoDB;\
             INSERT INTO blocked VALUES (0);\
             BEGIN;\
             SELECT n FROM blocked FOR UPDATE",
        );
        let stage = Stage::new();
        let scene = Self {
            flavour,
            account: user.to_owned(),
            options: stage.path("client.cnf"),
            is_mutant: false,
            database,
            stage,
            lock,
        };
        scene.connect_client_to(&format!("protocol=tcp\nhost=127.0.0.1\nport={port}"));
        scene
    }

    /// Makes later clients connect to `address`, lines of an option file.
    pub(super) fn connect_client_to(&self, address: &str) {
        let Database { name, password, .. } = &self.database;
        let text = format!(
            "[client]\n{address}\nuser={}\npassword={password}\n\
             [mysql]\ndatabase={name}\n[mariadb-client]\ndatabase={name}\n",
            self.account
        );
        fs::write(&self.options, text).expect("the file can be written");
    }

    pub(super) fn dlock<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Dlock {
        match self.is_mutant {
            true => Dlock::of(&program(), arguments)
                .env(VARIABLE, "sessions")
                .env("DLOCK_URL", self.database.url()),
            false => Dlock::on(&self.database, arguments),
        }
    }

    pub(super) fn exec(&self) -> Dlock {
        self.dlock(["exec", "-a", "init"])
    }

    /// Returns a shell command that executes the statement.
    fn client(&self) -> String {
        format!(
            "'{}' --defaults-file='{}' -e 'SET SESSION innodb_lock_wait_timeout=600; {STATEMENT}'",
            self.flavour.client().display(),
            self.options.display()
        )
    }

    /// Starts a holder whose command is the client. Returns it with the process id of the client when the session is noted.
    pub(super) fn start(&self, options: &[&str]) -> (Running, u32) {
        self.start_noted(self.exec().args(options), COMMAND)
    }

    /// Starts the holder `exec` with the command `script`. Returns when the session is noted.
    pub(super) fn start_noted(&self, exec: Dlock, script: &str) -> (Running, u32) {
        let started = self.start_script(exec, script);
        self.wait_until_noted();
        started
    }

    /// Starts the holder `exec` with the command `script`. Returns when the server executes the statement.
    pub(super) fn start_script(&self, exec: Dlock, script: &str) -> (Running, u32) {
        let before = self.statements();
        let (holder, pid) = self.launch(exec.args(["--", "sh", "-c", script, "sh"]));
        self.wait_for_statements(before + 1);
        (holder, pid.parse().expect("a process id"))
    }

    /// Starts `program` with the arguments of a script. Returns it with the message that the script has written.
    fn launch(&self, program: Dlock) -> (Running, String) {
        let ready = self.stage.fifo("ready");
        let running = program.arg(&ready).arg(self.client()).start();
        let message = read_message(&ready);
        fs::remove_file(ready).expect("the fifo exists");
        (running, message)
    }

    /// Lets a holder crash while its command is the client.
    pub(super) fn crash(&self, options: &[&str]) {
        self.start(options).0.crash();
    }

    /// Starts a script that holds the lock and becomes the client. Returns when the session is noted.
    pub(super) fn start_ward(&self) -> Ward {
        let script = Dlock::of(Path::new("sh"), ["-c", WARD, "sh"])
            .env("dlock", env!("CARGO_BIN_EXE_dlock"))
            .env("DLOCK_URL", self.database.url());
        let (running, pids) = self.launch(script);
        let (holder, pid) = pids.split_once(' ').expect("two words");
        self.wait_until_noted();
        self.wait_for_statements(1);
        Ward {
            running,
            holder: holder.parse().expect("a process id"),
            pid: pid.parse().expect("a process id"),
        }
    }

    pub(super) fn client_process(&self) -> Child {
        Command::new("sh")
            .args(["-c", &format!("exec {}", self.client())])
            .stdin(Stdio::null())
            .spawn()
            .expect("sh runs")
    }

    /// Returns a contender whose command prints the number of statements that the server executes at that time.
    pub(super) fn next(&self, options: &[&str]) -> Dlock {
        // The list contains the sessions of the client's own account.
        let query = format!(
            "SELECT CONCAT(COUNT(*),\" statements\") FROM {SESSIONS} AS s WHERE info LIKE \"{STATEMENT}%\""
        );
        self.exec()
            .args(options)
            .arg("--")
            .arg(self.flavour.client())
            .arg(format!("--defaults-file={}", self.options.display()))
            .args(["--skip-column-names", "-e", &query])
    }

    /// Returns the number of sessions that execute the statement.
    #[track_caller]
    pub(super) fn statements(&self) -> u64 {
        self.database.value(format!(
            "SELECT COUNT(*) FROM {SESSIONS} AS s WHERE user='{}' AND info LIKE '{STATEMENT}%'",
            self.account
        ))
    }

    #[track_caller]
    pub(super) fn wait_for_statements(&self, count: u64) {
        eventually("the server executes the statement", || {
            self.statements() == count
        });
    }

    pub(super) fn is_noted(&self) -> bool {
        let noted = "SELECT COUNT(*) FROM dlock_lock WHERE sessions IS NOT NULL";
        self.database.value::<u64>(noted) == 1
    }

    #[track_caller]
    fn wait_until_noted(&self) {
        eventually("the session is noted", || self.is_noted());
    }

    /// Locks the record, until `count` sessions of dlock have waited for it, one after the other.
    #[track_caller]
    pub(super) fn lock_record_until_waited(&mut self, count: usize) {
        let mut session = self.database.admin_conn();
        session.run("BEGIN; SELECT action FROM dlock_lock FOR UPDATE");
        self.unlock();
        let query = format!(
            "SELECT id FROM {SESSIONS} AS s WHERE user='{}' AND info LIKE '%UPDATE dlock_lock%'",
            self.account
        );
        let mut waited = BTreeSet::new();
        eventually("the sessions have waited", || {
            waited.extend(self.database.rows::<u64>(&query));
            waited.len() >= count
        });
        session.run("ROLLBACK");
    }

    /// Ends the transaction that has locked the row.
    pub(super) fn unlock(&mut self) {
        self.lock.run("ROLLBACK");
    }

    pub(super) fn is_updated(&self) -> bool {
        self.database.value::<u64>("SELECT n FROM blocked") == 1
    }
}
