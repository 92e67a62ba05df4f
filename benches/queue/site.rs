//! Starts a MariaDB or MySQL server with dlock's account, and queries the state of the queue.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::servers::{Database, Flavour, Server};

use crate::bare_command;

/// Path of dlock, which `cargo bench` builds with the release profile.
const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Server option that allows connections for a thousand contenders and for the benchmark itself.
const CONNECTIONS: &str = "--max-connections=1100";

/// The speed of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// The server uses its default settings and the disk of this machine.
    Default,
    /// A server setting makes each commit wait 5 ms for other commits. MariaDB ends this wait as soon as another
    /// transaction needs a row that the commit has locked.
    Delayed,
    /// Each sync takes 5 ms longer, as on a network volume. MySQL syncs twice for each commit, because its binary log
    /// is on.
    SlowDisk,
}

/// A running server with a database and its tables.
pub(crate) struct Site {
    server: Server,
    commits: Commits,
    database: Database,
    admin: RefCell<Conn>,
}

impl Site {
    pub(crate) fn start(flavour: Flavour, commits: Commits) -> Self {
        let mut options = vec![CONNECTIONS];
        options.extend(commits.options(flavour));
        let slow_disk = tempfile::tempdir().expect("a temporary folder");
        let preload = match commits {
            Commits::SlowDisk => vec![(
                "DLOCK_TEST_SERVER_PRELOAD",
                build_slow_sync(slow_disk.path()),
            )],
            Commits::Default | Commits::Delayed => Vec::new(),
        };
        let server = Server::start_in(flavour, &options, &preload);
        let database = server.database("bench");
        let mut setup = bare_command(DLOCK);
        setup.arg("setup").env("DLOCK_URL", database.url());
        assert!(setup.status().expect("dlock runs").success(), "dlock setup");
        let site = Self {
            admin: RefCell::new(database.admin_conn()),
            server,
            commits,
            database,
        };
        site.drop("CREATE TABLE bench_commit (id INT PRIMARY KEY, value INT NOT NULL)");
        site.drop("INSERT INTO bench_commit VALUES (1,0)");
        // A server with a low limit of open files accepts fewer connections.
        let room: u64 = site.one("SELECT @@GLOBAL.max_connections");
        assert!(
            room > 1000,
            "the server accepts only {room} connections; raise ulimit -n"
        );
        site
    }

    pub(crate) fn name(&self) -> &'static str {
        match (self.server.flavour(), self.commits) {
            (Flavour::MariaDb, Commits::Default) => "MariaDB",
            (Flavour::MariaDb, Commits::Delayed) => "MariaDB with delayed commits",
            (Flavour::MariaDb, Commits::SlowDisk) => "MariaDB on a slow disk",
            (Flavour::MySql, Commits::Default) => "MySQL",
            (Flavour::MySql, Commits::Delayed) => "MySQL with delayed commits",
            (Flavour::MySql, Commits::SlowDisk) => "MySQL on a slow disk",
        }
    }

    pub(crate) fn version(&self) -> &str {
        self.server.version()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Returns true if a server setting or the disk slows down the commits of the server.
    pub(crate) fn is_slow(&self) -> bool {
        self.commits != Commits::Default
    }

    /// Returns `dlock ARGUMENTS…` on this server, over TCP.
    pub(crate) fn dlock(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command(DLOCK);
        command.args(arguments);
        command.env("DLOCK_URL", self.database.url());
        command
    }

    /// Returns `dlock exec ARGUMENTS…` on this server, over TCP.
    pub(crate) fn exec(&self, arguments: &[&str]) -> Command {
        self.exec_by(Path::new(DLOCK), arguments)
    }

    /// Like [`Self::exec`], but without the hand-off.
    pub(crate) fn exec_without_hand_off(&self, arguments: &[&str]) -> Command {
        let mut command = self.exec_by(&mutant(), arguments);
        command.env("DLOCK_MUTANT", "handoff");
        command
    }

    /// Like [`Self::exec`], but with another program.
    pub(crate) fn exec_by(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = bare_command(program);
        command.arg("exec").args(arguments);
        command.env("DLOCK_URL", self.database.url());
        command
    }

    /// Returns the number of sessions that wait for a queue lock, according to the process list of the server.
    pub(crate) fn waiting_sessions(&self) -> usize {
        self.one(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db=DATABASE() AND state='User lock'",
        )
    }

    /// Returns the names of the waiters for `action`, in the order of their positions.
    pub(crate) fn queued_names(&self, action: &str) -> Vec<String> {
        self.admin
            .borrow_mut()
            .query(format!(
                "SELECT CAST(w.holder AS CHAR) FROM dlock_waiter w WHERE w.action='{action}' \
                 AND NOT EXISTS (SELECT 1 FROM dlock_lock l WHERE l.owner_id=w.owner_id) \
                 ORDER BY w.position"
            ))
            .expect("the server responds")
    }

    /// Returns the number of renewals of each action's lease.
    pub(crate) fn renewals(&self) -> Vec<(String, u64)> {
        self.admin
            .borrow_mut()
            .query("SELECT CAST(action AS CHAR),renewals FROM dlock_lock")
            .expect("the server responds")
    }

    /// Returns the time since the lease of `action` was granted or most recently renewed.
    pub(crate) fn renewed_ago(&self, action: &str) -> Duration {
        Duration::from_micros(self.one(&format!(
            "SELECT TIMESTAMPDIFF(MICROSECOND,renewed_at,UTC_TIMESTAMP(6)) FROM dlock_lock \
             WHERE action='{action}'"
        )))
    }

    /// Returns the server's counters whose names match `pattern`. Sends one query.
    pub(crate) fn counters(&self, pattern: &str) -> Vec<(String, i64)> {
        let rows: Vec<(String, String)> = self
            .admin
            .borrow_mut()
            .query(format!(
                "SHOW GLOBAL STATUS WHERE variable_name RLIKE '{pattern}'"
            ))
            .expect("the server responds");
        rows.into_iter()
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect()
    }

    /// Updates one row, and returns the time of the UPDATE with its commit.
    pub(crate) fn commit(&self) -> Duration {
        let start = Instant::now();
        self.drop("UPDATE bench_commit SET value=value+1 WHERE id=1");
        start.elapsed()
    }

    fn drop(&self, statement: &str) {
        self.admin
            .borrow_mut()
            .query_drop(statement)
            .expect("the server responds");
    }

    fn one<T: mysql::prelude::FromRow>(&self, query: &str) -> T {
        let row = self.admin.borrow_mut().query_first(query);
        row.expect("the server responds").expect("one row")
    }
}

impl Commits {
    /// Returns the server options for this speed of commits.
    fn options(self, flavour: Flavour) -> &'static [&'static str] {
        match (self, flavour) {
            (Self::Default | Self::SlowDisk, _) => &[],
            (Self::Delayed, Flavour::MariaDb) => &[
                "--log-bin",
                "--binlog-commit-wait-count=1000",
                "--binlog-commit-wait-usec=5000",
            ],
            (Self::Delayed, Flavour::MySql) => &["--binlog-group-commit-sync-delay=5000"],
        }
    }
}

/// C source of replacements for `fsync` and `fdatasync`, which delay each sync by 5 ms.
const SLOW_SYNC: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd) { usleep(5000); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { usleep(5000); return syscall(SYS_fdatasync, fd); }
";

/// Compiles [`SLOW_SYNC`] to a library in `folder`, and returns the path of the library. `LD_PRELOAD` loads the
/// library.
fn build_slow_sync(folder: &Path) -> String {
    let [source, library] = ["sync.c", "sync.so"].map(|name| folder.join(name));
    fs::write(&source, SLOW_SYNC).expect("a file can be created");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    let status = compiler.status().expect("cc, the C compiler, is installed");
    assert!(status.success(), "cc failed");
    library
        .into_os_string()
        .into_string()
        .expect("the path is UTF-8")
}

/// Returns the path of the dlock whose safeguards can be disabled.
fn mutant() -> PathBuf {
    testkit::target_tmp().join("mutants/release/dlock")
}

/// Builds that dlock with the same profile as `cargo bench` uses for dlock.
pub(crate) fn build_mutant() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args("build --quiet --release --locked --features mutants --bin dlock".split(' '))
        .arg("--target-dir")
        .arg(testkit::target_tmp().join("mutants"))
        .current_dir(testkit::repository());
    assert!(
        build.status().expect("cargo runs").success(),
        "cargo build --features mutants"
    );
}
