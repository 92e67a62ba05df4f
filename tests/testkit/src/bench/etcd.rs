//! Starts the etcd server and runs its client `etcdctl`. Both come from Debian packages.
//!
//! The script that starts the server also kills the server when the script's standard input is closed. The standard
//! input is a pipe, which the kernel closes when this process ends for any reason.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running etcd server. The server is killed when this value is dropped.
pub struct Etcd {
    script: Child,
    client: PathBuf,
    /// Creates the commands.
    bare_command: fn(&Path) -> Command,
    port: String,
    folder: PathBuf,
    version: String,
}

impl Etcd {
    /// Starts a server. `bare_command` creates the commands of its client.
    pub fn start(bare_command: fn(&Path) -> Command) -> Self {
        let scripts = crate::repository().join("tests/servers");
        let found = Command::new(scripts.join("fetch"))
            .args(["--path", "etcdctl"])
            .stderr(Stdio::inherit())
            .output()
            .expect("tests/servers/fetch can be run");
        assert!(found.status.success(), "etcdctl cannot be fetched");
        let client = String::from_utf8(found.stdout).expect("the path is UTF-8");

        let mut script = Command::new(scripts.join("run"))
            .arg("etcd")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tests/servers/run can be run");
        let mut ready = String::new();
        BufReader::new(script.stdout.take().expect("stdout is a pipe"))
            .read_line(&mut ready)
            .expect("the script writes text");
        let value = |name: &str| {
            let mut words = ready.split_whitespace();
            let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.expect("etcd starts").to_owned()
        };
        Self {
            client: client.trim_end().into(),
            port: value("port"),
            folder: value("dir").into(),
            version: value("version"),
            script,
            bare_command,
        }
    }

    /// Returns `etcdctl lock KEY COMMAND…`.
    pub fn lock(&self, key: &str, command: &[impl AsRef<OsStr>]) -> Command {
        let mut lock = self.client();
        lock.args(["lock", key]).args(command);
        lock
    }

    /// Returns `etcdctl elect ARGUMENTS…`.
    pub fn elect(&self, arguments: &[&str]) -> Command {
        let mut elect = self.client();
        elect.arg("elect").args(arguments);
        elect
    }

    /// Returns `etcdctl get --prefix`, which lists the holder and the waiters of the lock `key`.
    pub fn get(&self, key: &str) -> Command {
        let mut get = self.client();
        get.args(["get", "--prefix", &format!("{key}/")]);
        get
    }

    /// Returns the number of holders and waiters of the lock `key`.
    pub fn queue(&self, key: &str) -> usize {
        let mut get = self.get(key);
        get.arg("--keys-only");
        let output = get.stdout(Stdio::piped()).output().expect("etcdctl runs");
        let keys = String::from_utf8_lossy(&output.stdout);
        keys.lines().filter(|line| !line.is_empty()).count()
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn client(&self) -> Command {
        let mut client = (self.bare_command)(&self.client);
        client.env("ETCDCTL_API", "3");
        client.arg(format!("--endpoints=127.0.0.1:{}", self.port));
        client
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // This fails only if another call has already waited for the child.
        let _ = self.script.wait();
    }
}
