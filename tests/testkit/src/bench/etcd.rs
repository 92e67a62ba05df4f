//! Starts the etcd server and runs its client `etcdctl`. Both come from Debian packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::bare;
use crate::servers::{Ready, Script, fetched};

/// A running etcd server. Dropping this value kills the server.
pub struct Etcd {
    _script: Script,
    ready: Ready,
    client: PathBuf,
}

impl Etcd {
    pub fn start() -> Self {
        let mut script = Script::start("etcd", &[], &[]);
        Self {
            ready: script.ready(),
            _script: script,
            client: fetched("etcdctl"),
        }
    }

    pub fn lock(&self, key: &str, command: &[impl AsRef<OsStr>]) -> Command {
        let mut lock = self.client(&["lock", key]);
        lock.args(command);
        lock
    }

    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut client = bare(&self.client);
        client.env("ETCDCTL_API", "3");
        client.arg(format!("--endpoints=127.0.0.1:{}", self.ready.port));
        client.args(arguments);
        client
    }

    /// Returns `etcdctl get --prefix`, which lists the holder and the waiters of the lock `key`.
    pub fn get(&self, key: &str) -> Command {
        self.client(&["get", "--prefix", &format!("{key}/")])
    }

    pub fn queue(&self, key: &str) -> usize {
        let mut get = self.get(key);
        get.arg("--keys-only");
        let output = get.stdout(Stdio::piped()).output().expect("etcdctl runs");
        let keys = String::from_utf8_lossy(&output.stdout);
        keys.lines().filter(|line| !line.is_empty()).count()
    }

    pub fn version(&self) -> &str {
        &self.ready.version
    }

    pub fn folder(&self) -> &Path {
        &self.ready.dir
    }
}
