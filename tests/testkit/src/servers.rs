//! Starts the real servers for the tests. Each server has its own process, data folder and port.
//!
//! The script `tests/servers/run` starts, restarts and stops the servers. Each test creates its own [`Database`], so
//! tests can use one [`shared`] server without affecting each other. This file starts no thread. If a server cannot be
//! started, the test panics with a message that names the package to install. No test is skipped.
//!
//! The script runs until the pipe to its standard input closes. The kernel closes this pipe when the test process ends
//! for any reason. Therefore, no server and no folder outlives the tests, even if the tests are killed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use dlock::store::target::{Address, Secret, SslMode, Target, Tls};
use mysql::{Conn, OptsBuilder};
use url::form_urlencoded::byte_serialize;

use crate::cli_runner::Dlock;
use crate::sql::Sql;

/// A release series of a server. The tests of the contract, of mutual exclusion, of the order of the queue and of
/// `dlock doctor` run on all series; the other tests run on one series of each [`Flavour`], or of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    MariaDb1011,
    MariaDb118,
    MySql97,
    /// A node of a Galera cluster, with MariaDB 10.11.
    Galera,
    /// A server that is configured for Group Replication, with MySQL 9.7.
    Group,
}

impl Series {
    /// All tested series, as single servers.
    pub const ALL: [Self; 3] = [Self::MariaDb1011, Self::MariaDb118, Self::MySql97];

    pub const fn flavour(self) -> Flavour {
        match self {
            Self::MariaDb1011 | Self::MariaDb118 | Self::Galera => Flavour::MariaDb,
            Self::MySql97 | Self::Group => Flavour::MySql,
        }
    }
}

impl From<Flavour> for Series {
    fn from(flavour: Flavour) -> Self {
        match flavour {
            Flavour::MariaDb => Self::MariaDb1011,
            Flavour::MySql => Self::MySql97,
        }
    }
}

impl fmt::Display for Series {
    /// Writes the series as an argument of the script `tests/servers/run`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb1011 => "mariadb",
            Self::MariaDb118 => "mariadb-11.8",
            Self::MySql97 => "mysql",
            Self::Galera => "galera",
            Self::Group => "group",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    MariaDb,
    MySql,
}

impl Flavour {
    pub const ALL: [Self; 2] = [Self::MariaDb, Self::MySql];

    /// Returns the kind of server for a test of processes: of signals, streams, files, terminals or messages. Such a test
    /// does not depend on the kind of server, so it runs once. About half of these tests run on each kind, so over all
    /// tests, every part of dlock still meets both kinds. A test of statements, errors or sessions of the server uses
    /// [`ALL`](Self::ALL) or [`on_each_flavour`](crate::on_each_flavour).
    ///
    /// The name of the test determines the result, so a test that fails can be run again on the same server. libtest
    /// runs each test in a thread with the name of the test. With one test thread, libtest runs all tests in the main
    /// thread, and the result is MariaDB.
    ///
    /// # Panics
    ///
    /// Panics in a thread that the test has started, because the test's name is unknown there.
    #[track_caller]
    pub fn of_this_test() -> Self {
        let thread = thread::current();
        let name = thread.name().expect("the thread of a test has a name");
        match name {
            "main" => Self::MariaDb,
            test => Self::of_test(test),
        }
    }

    /// Returns the kind of server for the test `name`. The hash is FNV-1a, which gives the same result on each machine.
    fn of_test(name: &str) -> Self {
        let add = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = name.bytes().fold(0x811c_9dc5, add);
        // The lowest bit would only depend on the lowest bits of the bytes.
        match hash.count_ones() % 2 {
            0 => Self::MariaDb,
            _ => Self::MySql,
        }
    }

    pub const fn product(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        }
    }

    #[track_caller]
    pub fn client(self) -> PathBuf {
        // The clients have the same names as the flavours.
        fetched(&self.to_string())
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Series::from(*self).fmt(f)
    }
}

/// Returns the path of a program that `tests/servers/fetch` provides. The script runs once for each program.
#[track_caller]
pub fn fetched(program: &str) -> PathBuf {
    static PATHS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    // A thread that panicked while it held this mutex has not changed the map.
    let paths = || PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = paths().get(program).cloned();
    known.unwrap_or_else(|| {
        let path = fetch(program);
        paths().insert(program.to_owned(), path.clone());
        path
    })
}

#[track_caller]
fn fetch(program: &str) -> PathBuf {
    let fetch = crate::repository().join("tests/servers/fetch");
    let found = Command::new(fetch)
        .args(["--path", program])
        .output()
        .expect("the script runs");
    let why = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "no {program}: {why}");
    PathBuf::from(String::from_utf8_lossy(&found.stdout).trim())
}

/// An SQL subquery that returns the sessions of a server and their statements. On MySQL, reading
/// `information_schema.processlist` fails while a running statement contains a four-byte character. The tests of
/// hostile strings run such statements.
pub const SESSIONS: &str = "(SELECT id,user,db,command,state,info FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL \
     SELECT id,user,db,command,state,info FROM performance_schema.processlist*/)";

/// Returns the server of this series that all tests of this process share. The first call starts the server.
///
/// No test may restart or stop a shared server. A test that needs a restart or special options starts a separate
/// [`Server`].
pub fn shared(series: impl Into<Series>) -> &'static Server {
    static SERVERS: [OnceLock<Server>; Series::ALL.len()] =
        [const { OnceLock::new() }; Series::ALL.len()];
    let series = series.into();
    let number = Series::ALL.iter().position(|other| *other == series);
    let number = number.expect("the nodes of a cluster are started together");
    // The server is never dropped. When this process ends, the kernel closes the pipe to the script, which stops the
    // server.
    SERVERS[number].get_or_init(|| Server::start(series, &[]))
}

/// Returns a new database on the server that [`Flavour::of_this_test`] chooses.
#[track_caller]
pub fn database() -> Database {
    shared(Flavour::of_this_test()).database("test")
}

/// A running server. Dropping this value stops the server, waits until its process has ended, and removes its folder.
pub struct Server {
    series: Series,
    script: Script,
    ready: Ready,
}

impl Server {
    /// Starts a server of this series and returns once it accepts connections.
    ///
    /// The server receives `extra_options` after all other options, so `extra_options` have precedence.
    #[track_caller]
    pub fn start(series: impl Into<Series>, extra_options: &[&str]) -> Self {
        Self::start_in(series, extra_options, &[])
    }

    /// Starts a server like [`Self::start`], and passes the environment variables in `environment` to the script. The
    /// script documents these variables.
    #[track_caller]
    pub fn start_in(
        series: impl Into<Series>,
        extra_options: &[&str],
        environment: &[(&str, String)],
    ) -> Self {
        let series = series.into();
        let mut script = Script::start(&series.to_string(), extra_options, environment);
        let ready = script.ready();
        Self {
            series,
            script,
            ready,
        }
    }

    /// Kills the server, as in a crash, and restarts it with the same data, port and socket.
    #[track_caller]
    pub fn restart(&mut self) {
        self.command("restart");
    }

    /// Restarts the server like [`Self::restart`], with `options` in place of the options of the start. The options must
    /// not contain spaces.
    #[track_caller]
    pub fn restart_with(&mut self, options: &[&str]) {
        self.command(&format!("restart {}", options.join(" ")));
    }

    /// Copies the server's data as they are at this moment.
    #[track_caller]
    pub fn snapshot(&mut self) {
        self.command("snapshot");
    }

    /// Kills the server and restarts it with the data of the latest [`Self::snapshot`], and the same port and socket.
    #[track_caller]
    pub fn restore(&mut self) {
        self.command("restore");
    }

    /// Sends `command` to the script, and waits until the server accepts connections.
    #[track_caller]
    fn command(&mut self, command: &str) {
        let stdin = self.script.stdin.as_mut();
        let stdin = stdin.expect("the pipe is open until the drop");
        writeln!(stdin, "{command}").expect("the script reads its commands");
        self.ready = self.script.ready();
    }

    pub fn series(&self) -> Series {
        self.series
    }

    pub fn flavour(&self) -> Flavour {
        self.series.flavour()
    }

    pub fn port(&self) -> u16 {
        self.ready.port
    }

    pub fn socket(&self) -> &Path {
        &self.ready.socket
    }

    /// Returns the server's process id, for tests that send signals to the server.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// Returns the server's folder, which contains `log` and `data`. The folder is removed when the server stops.
    pub fn dir(&self) -> &Path {
        &self.ready.dir
    }

    /// Returns the path of the disk of a server with `DLOCK_TEST_SERVER_DISK`. The disk is mounted only in the server's
    /// mount namespace, so the path goes through /proc.
    pub fn disk(&self) -> PathBuf {
        let (pid, dir) = (self.pid(), self.dir().display());
        format!("/proc/{pid}/root{dir}/disk").into()
    }

    pub fn version(&self) -> &str {
        &self.ready.version
    }

    /// Opens a connection as root over the Unix socket.
    #[track_caller]
    pub fn admin(&self) -> Conn {
        admin(&self.ready.socket, None)
    }

    /// Opens a connection like [`Self::admin`], to a server that may not respond.
    pub fn try_admin(&self) -> mysql::Result<Conn> {
        Conn::new(root_options(&self.ready.socket, None))
    }

    /// Returns `database`, which another node of the same cluster has created, as it is reached through this server.
    pub fn same(&self, database: &Database) -> Database {
        Database {
            port: self.port(),
            socket: self.socket().to_owned(),
            ..database.clone()
        }
    }

    /// Creates a database like [`Self::database`], with dlock's tables.
    #[track_caller]
    pub fn set_up(&self, prefix: &str) -> Database {
        let database = self.database(prefix);
        database.set_up();
        database
    }

    /// Creates a database, and an account that has all privileges on this database and no other privileges.
    #[track_caller]
    pub fn database(&self, prefix: &str) -> Database {
        // Tests share a server only within this process, so a counter makes the names unique.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let database = Database {
            name: format!("{prefix}_{number}"),
            user: format!("u_{number}"),
            password: password(),
            port: self.port(),
            socket: self.socket().to_owned(),
        };
        database.create(&mut self.admin());
        database
    }
}

/// A database with its own account. The database survives a restart of its server, and is removed when the server
/// stops.
///
/// This type has no reference to the server, so a test can restart the server and then use the database again.
#[derive(Clone, Debug)]
pub struct Database {
    pub name: String,
    pub user: String,
    pub password: String,
    pub port: u16,
    socket: PathBuf,
}

impl Database {
    /// Returns the URL of this database with its account, over TCP.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// Returns the contents of a `dlock.cnf` with the address and the account of this database.
    pub fn settings(&self) -> String {
        let Self { port, user, .. } = self;
        let (password, name) = (&self.password, &self.name);
        format!(
            "[dlock]\nhost=127.0.0.1\nport={port}\nuser={user}\npassword={password}\ndatabase={name}\n"
        )
    }

    /// Returns the URL of this database with a different port on 127.0.0.1, for example the port of a proxy.
    pub fn url_through(&self, port: u16) -> String {
        self.url_at(&format!("127.0.0.1:{port}"))
    }

    /// Returns the URL of this database with its account at `hosts`, in the form HOST:PORT or a list of them.
    pub fn url_at(&self, hosts: &str) -> String {
        format!(
            "mysql://{}:{}@{hosts}/{}",
            self.user, self.password, self.name
        )
    }

    /// Returns the URL of this database with its account, over the Unix socket.
    pub fn socket_url(&self) -> String {
        let socket = self.socket.to_str().expect("the socket's path is UTF-8");
        let socket: String = byte_serialize(socket.as_bytes()).collect();
        let socket = socket.replace('+', "%20");
        format!(
            "mysql://{}:{}@localhost/{}?socket={socket}",
            self.user, self.password, self.name
        )
    }

    /// Returns the target of dlock's connections to this database through `port` on 127.0.0.1, without TLS.
    pub fn target(&self, port: u16) -> Target {
        Target {
            address: Address::Tcp {
                host: "127.0.0.1".to_owned(),
                port,
            },
            user: self.user.clone(),
            password: Some(Secret::new(self.password.clone())),
            database: self.name.clone(),
            tls: Tls {
                mode: SslMode::Disabled,
                chosen: true,
                ca: None,
                identity: None,
            },
        }
    }

    /// Returns this database as clients reach it through `port` on 127.0.0.1, for example the port of a proxy.
    pub fn through(&self, port: u16) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }

    /// Opens a connection as root over the Unix socket, with this database selected.
    #[track_caller]
    pub fn admin_conn(&self) -> Conn {
        admin(&self.socket, Some(&self.name))
    }

    #[track_caller]
    pub fn set_up(&self) {
        Dlock::on(self, ["setup", "-q"]).run().expect(0, "", "");
    }

    /// Returns this database with another account. If the account is new, it has no privileges.
    #[track_caller]
    pub fn account(&self, name: &str) -> Self {
        let mut account = self.clone();
        account.user = format!("{name}_{}", self.user);
        let (user, password) = (&account.user, &account.password);
        let statement = format!("CREATE USER IF NOT EXISTS '{user}' IDENTIFIED BY '{password}'");
        self.run(statement);
        account
    }

    /// Grants `privileges`, for example `SELECT ON *.*`, to the account of this database.
    #[track_caller]
    pub fn grant(&self, privileges: &str) {
        self.run(format!("GRANT {privileges} TO '{}'@'%'", self.user));
    }

    /// Creates the database and its account on the server of the connection `root`.
    pub fn create(&self, root: &mut Conn) {
        let (name, user, password) = (&self.name, &self.user, &self.password);
        // In GRANT, unlike in other statements, the name of a database is a pattern, and `_` matches any character.
        let pattern = name.replace('_', "\\_");
        root.run(format!(
            "CREATE DATABASE `{name}`;\
             CREATE USER '{user}'@'%' IDENTIFIED BY '{password}';\
             GRANT ALL ON `{pattern}`.* TO '{user}'@'%'"
        ));
    }
}

#[track_caller]
fn admin(socket: &Path, database: Option<&str>) -> Conn {
    Conn::new(root_options(socket, database))
        .unwrap_or_else(|error| panic!("root cannot connect to {}: {error}", socket.display()))
}

fn root_options(socket: &Path, database: Option<&str>) -> OptsBuilder {
    OptsBuilder::new()
        .socket(Some(socket.to_str().expect("the socket's path is UTF-8")))
        .user(Some("root"))
        .db_name(database)
}

/// Returns a random password. All users of this machine can connect to the server, so the password must be hard to
/// guess.
///
/// The password contains only digits and letters, so it needs no escapes in URLs, SQL and shell commands.
fn password() -> String {
    let random = getrandom::u64().expect("the system has random numbers");
    format!("pw{random:016x}")
}

/// The values that the script prints when the server accepts connections.
pub(crate) struct Ready {
    pid: u32,
    pub(crate) port: u16,
    socket: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) version: String,
}

impl Ready {
    /// Parses `ready pid=… port=… socket=… dir=… version=…`. Returns None if the line has a different format.
    fn parse(line: &str) -> Option<Self> {
        let values = line.strip_prefix("ready ")?.splitn(5, ' ');
        let values = values.map(|word| word.split_once('='));
        let (names, values): (Vec<&str>, Vec<&str>) =
            values.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let [pid, port, socket, dir, version] = values[..] else {
            return None;
        };
        (names == ["pid", "port", "socket", "dir", "version"]).then_some(Self {
            pid: pid.parse().ok()?,
            port: port.parse().ok()?,
            socket: socket.into(),
            dir: dir.into(),
            version: version.to_owned(),
        })
    }
}

/// The running script `tests/servers/run`, which owns the server's process and folder.
pub(crate) struct Script {
    child: Child,
    /// The pipe to the standard input of the script. The script ends when the pipe closes. None means that the pipe is
    /// closed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Script {
    #[track_caller]
    pub(crate) fn start(kind: &str, options: &[&str], environment: &[(&str, String)]) -> Self {
        let path = crate::repository().join("tests/servers/run");
        let mut child = Command::new(&path)
            .arg(kind)
            .args(options)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be executed: {error}", path.display()));
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("standard output is a pipe")),
            stderr: child.stderr.take().expect("standard error is a pipe"),
            child,
        }
    }

    /// Waits until the server accepts connections. The script has a timeout for a server that never accepts
    /// connections.
    #[track_caller]
    pub(crate) fn ready(&mut self) -> Ready {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .expect("the script writes text");
        Ready::parse(line.trim_end()).unwrap_or_else(|| self.fail(&line))
    }

    #[track_caller]
    fn fail(&mut self, line: &str) -> ! {
        // Closing the script's standard input ends the script, so its standard error reaches the end of the stream.
        self.stdin = None;
        let mut text = String::new();
        // If the standard error cannot be read, the panic message omits it.
        let _ = self.stderr.read_to_string(&mut text);
        panic!("the server did not start: {line}\n{text}");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.stdin = None;
        // The wait fails only if the process no longer exists.
        let _ = self.child.wait();
    }
}
