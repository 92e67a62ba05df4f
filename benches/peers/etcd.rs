//! Starts the etcd server and runs its client `etcdctl`. Both come from Debian packages.
//!
//! The script that starts the server also kills the server when the script's standard input is closed. The standard
//! input is a pipe, which the kernel closes when this process ends for any reason.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bare_command;

/// A running etcd server. The server is killed when this value is dropped.
pub(crate) struct Etcd {
    script: Child,
    client: PathBuf,
    port: String,
    folder: PathBuf,
    version: String,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
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
        }
    }

    /// Returns `etcdctl lock KEY COMMAND…`.
    pub(crate) fn lock(&self, key: &str, command: &[impl AsRef<OsStr>]) -> Command {
        let mut lock = self.client();
        lock.args(["lock", key]).args(command);
        lock
    }

    /// Returns `etcdctl elect ARGUMENTS…`.
    #[allow(dead_code, reason = "only the benchmark `queue` compares elections")]
    pub(crate) fn elect(&self, arguments: &[&str]) -> Command {
        let mut elect = self.client();
        elect.arg("elect").args(arguments);
        elect
    }

    /// Returns `etcdctl get --prefix`, which lists the holder and the waiters of the lock `key`.
    pub(crate) fn get(&self, key: &str) -> Command {
        let mut get = self.client();
        get.args(["get", "--prefix", &format!("{key}/")]);
        get
    }

    /// Returns the number of holders and waiters of the lock `key`.
    pub(crate) fn queue(&self, key: &str) -> usize {
        let mut get = self.get(key);
        get.arg("--keys-only");
        let output = get.stdout(Stdio::piped()).output().expect("etcdctl runs");
        let keys = String::from_utf8_lossy(&output.stdout);
        keys.lines().filter(|line| !line.is_empty()).count()
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the data folder.
    #[allow(
        dead_code,
        reason = "the benchmark `queue` does not report the storage"
    )]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn client(&self) -> Command {
        let mut client = bare_command(&self.client);
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
