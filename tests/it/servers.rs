//! The real servers that the tests run against: one process, one data folder and one free port each.
//!
//! Owns starting, restarting and stopping them, by way of the script `tests/servers/run`, and handing out databases in
//! them. Each test takes a [`Database`] of its own, so tests share a [`shared`] server without meeting. Starts no
//! thread. A server that can not be had is a panic that says what to install; nothing here ever skips a test.
//!
//! The script lives as long as the pipe to its standard input is open in this process. That pipe closes however this
//! process ends, so that no server and no folder outlives the tests, even when they are killed.

#![allow(
    dead_code,
    reason = "the benches use what the tests do not, and the other way round"
)]

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

/// A kind of server that dlock supports, and so is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    MariaDb,
    MySql,
}

impl Flavour {
    /// Every flavour, for the tests whose claim is about all of them.
    pub(crate) const ALL: [Self; 2] = [Self::MariaDb, Self::MySql];
}

impl fmt::Display for Flavour {
    /// Writes the name that the script `run` knows the flavour by.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        })
    }
}

/// The sessions of a server and what they say. MySQL's list in `information_schema` is an error as long as one of
/// them says something with a character of four bytes, as the tests of hostile texts do.
pub(crate) const SESSIONS: &str = "(SELECT id,user,info FROM information_schema.processlist\
     /*!80022 WHERE FALSE UNION ALL SELECT id,user,info FROM performance_schema.processlist*/)";

/// The one server of this flavour that all tests of this process share; started by the first to ask.
///
/// Nobody may restart or stop it. A test that needs that, or options of its own, starts a [`Server`] for itself.
pub(crate) fn shared(flavour: Flavour) -> &'static Server {
    static MARIADB: OnceLock<Server> = OnceLock::new();
    static MYSQL: OnceLock<Server> = OnceLock::new();
    let server = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    // Never dropped: the end of this process closes the pipe, which stops it.
    server.get_or_init(|| Server::start(flavour, &[]))
}

/// A running server, which ends with this value.
pub(crate) struct Server {
    flavour: Flavour,
    script: Script,
    ready: Ready,
}

impl Server {
    /// Starts a server of this flavour and returns when it answers.
    ///
    /// `extra_options` go to the server itself, after all the others and so with the last word.
    #[track_caller]
    pub(crate) fn start(flavour: Flavour, extra_options: &[&str]) -> Self {
        Self::start_in(flavour, extra_options, &[])
    }

    /// The same with a disk of `size`, such as `8M`, for whatever `extra_options` put in `../disk`.
    #[track_caller]
    pub(crate) fn with_disk(flavour: Flavour, size: &str, extra_options: &[&str]) -> Self {
        let disk = ("DLOCK_TEST_SERVER_DISK", size.to_owned());
        Self::start_in(flavour, extra_options, &[disk])
    }

    /// The same with `environment` for the script: what that does with it is written there.
    #[track_caller]
    pub(crate) fn start_in(
        flavour: Flavour,
        extra_options: &[&str],
        environment: &[(&str, String)],
    ) -> Self {
        let mut script = Script::start(flavour, extra_options, environment);
        let ready = script.ready();
        Self {
            flavour,
            script,
            ready,
        }
    }

    /// Kills the server as a crash would and starts it again with the same data, port and socket.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.script.order("restart");
        self.ready = self.script.ready();
    }

    /// Stops the server and returns when its process and its folder are gone. Dropping it does the same.
    pub(crate) fn stop(self) {
        drop(self);
    }

    pub(crate) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The TCP port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.ready.port
    }

    /// The Unix socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.ready.socket
    }

    /// The server's process, for the tests that stop it with a signal.
    pub(crate) fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// The server's folder, which holds its `log` and its `data`, and goes with it.
    pub(crate) fn dir(&self) -> &Path {
        &self.ready.dir
    }

    /// Its disk, if it was started with one, which only the server sees by its name.
    pub(crate) fn disk(&self) -> PathBuf {
        let dir = self.dir().strip_prefix("/").expect("an absolute path");
        Path::new("/proc")
            .join(self.pid().to_string())
            .join("root")
            .join(dir)
            .join("disk")
    }

    /// What `SELECT VERSION()` says.
    pub(crate) fn version(&self) -> &str {
        &self.ready.version
    }

    /// A new connection as root, over the Unix socket.
    #[track_caller]
    pub(crate) fn admin(&self) -> Conn {
        admin(&self.ready.socket, None)
    }

    /// A new database and a new account that may do everything in it and nothing elsewhere.
    #[track_caller]
    pub(crate) fn database(&self, prefix: &str) -> Database {
        // Tests share a server only within this process, so that a count is enough to keep their names apart.
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

/// A database with an account of its own. It goes with its server, and outlives a restart.
///
/// Holds no reference to the server, because a test that restarts it still wants its database afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) port: u16,
    socket: PathBuf,
}

impl Database {
    /// The URL of this database as its account, over TCP.
    pub(crate) fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// The same, through another port on 127.0.0.1: that of a proxy, for example.
    pub(crate) fn url_through(&self, port: u16) -> String {
        format!(
            "mysql://{}:{}@127.0.0.1:{port}/{}",
            self.user, self.password, self.name
        )
    }

    /// The URL of this database as its account, over the Unix socket.
    pub(crate) fn socket_url(&self) -> String {
        let socket = percent_encoded(self.socket.to_str().expect("the socket's path is UTF-8"));
        format!(
            "mysql://{}:{}@localhost/{}?socket={socket}",
            self.user, self.password, self.name
        )
    }

    /// A new connection as root, over the Unix socket, which already uses this database.
    #[track_caller]
    pub(crate) fn admin_conn(&self) -> Conn {
        admin(&self.socket, Some(&self.name))
    }

    /// Creates it, with its account, on the server of this connection.
    pub(crate) fn create(&self, root: &mut Conn) {
        let Self {
            name,
            user,
            password,
            ..
        } = self;
        // In GRANT alone, the name of a database is a pattern, and `_` stands for any character.
        let pattern = name.replace('_', "\\_");
        for statement in [
            format!("CREATE DATABASE `{name}`"),
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT ALL ON `{pattern}`.* TO '{user}'@'%'"),
        ] {
            root.query_drop(&statement)
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
}

#[track_caller]
fn admin(socket: &Path, database: Option<&str>) -> Conn {
    let options = OptsBuilder::new()
        .socket(Some(socket.to_str().expect("the socket's path is UTF-8")))
        .user(Some("root"))
        .db_name(database);
    Conn::new(options)
        .unwrap_or_else(|error| panic!("root can not connect to {}: {error}", socket.display()))
}

/// A password that nobody else on this machine can guess, because the port is open to them all.
///
/// Digits and letters only: it goes into URLs, SQL and shell commands as it is.
fn password() -> String {
    let random = getrandom::u64().expect("the system has random numbers");
    format!("pw{random:016x}")
}

/// Writes every byte that could mean something in a URL's query as `%XX`.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// What the script says of a server that answers.
struct Ready {
    pid: u32,
    pub(crate) port: u16,
    socket: PathBuf,
    dir: PathBuf,
    version: String,
}

impl Ready {
    /// Reads `ready pid=… port=… socket=… dir=… version=…`.
    fn parse(line: &str) -> Option<Self> {
        let mut values = line
            .strip_prefix("ready ")?
            .split(' ')
            .map(|word| word.split_once('='));
        let mut value = |name| {
            values
                .next()?
                .and_then(|(found, value)| (found == name).then_some(value))
        };
        Some(Self {
            pid: value("pid")?.parse().ok()?,
            port: value("port")?.parse().ok()?,
            socket: value("socket")?.into(),
            dir: value("dir")?.into(),
            version: value("version")?.to_owned(),
        })
    }
}

/// The running script `tests/servers/run`, which owns the server's process and folder.
struct Script {
    child: Child,
    /// Taken by `drop`: the script ends when this closes.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Script {
    #[track_caller]
    fn start(flavour: Flavour, extra_options: &[&str], environment: &[(&str, String)]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/run");
        let mut child = Command::new(&path)
            .arg(flavour.to_string())
            .args(extra_options)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} can not be executed: {error}", path.display()));
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("standard output is a pipe")),
            stderr: child.stderr.take().expect("standard error is a pipe"),
            child,
        }
    }

    fn order(&mut self, command: &str) {
        let stdin = self
            .stdin
            .as_mut()
            .expect("the pipe is open until the drop");
        writeln!(stdin, "{command}").expect("the script reads its commands");
    }

    /// Waits until the server answers. The script itself gives up on one that never does.
    #[track_caller]
    fn ready(&mut self) -> Ready {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .expect("the script writes text");
        Ready::parse(line.trim_end()).unwrap_or_else(|| self.fail(&line))
    }

    #[track_caller]
    fn fail(&mut self, line: &str) -> ! {
        // Without its standard input the script ends, and with it the text.
        self.stdin = None;
        let mut text = String::new();
        // What can not be read can not be shown either; the panic is the point.
        let _ = self.stderr.read_to_string(&mut text);
        panic!("the server did not start: {line}\n{text}");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.stdin = None;
        // The only failure is that there is nobody to wait for.
        let _ = self.child.wait();
    }
}
