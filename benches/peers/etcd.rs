//! The etcd server and its client `etcdctl`, both from Debian.
//!
//! The script that starts the server ends it when the pipe to its standard input closes, which happens however this
//! process ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::alone;

/// A running server, which ends with this value.
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
            .expect("fetch runs");
        assert!(found.status.success(), "there is no etcdctl");
        let client = String::from_utf8(found.stdout).expect("the path is UTF-8");

        let mut script = Command::new(scripts.join("run"))
            .arg("etcd")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("run runs");
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

    /// `etcdctl lock KEY COMMAND…`
    pub(crate) fn lock(&self, key: &str, command: &[impl AsRef<OsStr>]) -> Command {
        let mut lock = self.client();
        lock.args(["lock", key]).args(command);
        lock
    }

    /// `etcdctl get --prefix` of those who hold or wait for the lock `key`.
    pub(crate) fn look(&self, key: &str) -> Command {
        let mut look = self.client();
        look.args(["get", "--prefix", &format!("{key}/")]);
        look
    }

    /// How many hold or wait for the lock `key`.
    pub(crate) fn queue(&self, key: &str) -> usize {
        let mut look = self.look(key);
        look.arg("--keys-only");
        let output = look.stdout(Stdio::piped()).output().expect("etcdctl runs");
        let keys = String::from_utf8_lossy(&output.stdout);
        keys.lines().filter(|line| !line.is_empty()).count()
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The folder that holds its data.
    #[allow(dead_code, reason = "the bench of the line does not name the storage")]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn client(&self) -> Command {
        let mut client = alone(&self.client);
        client.env("ETCDCTL_API", "3");
        client.arg(format!("--endpoints=127.0.0.1:{}", self.port));
        client
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // The only failure is that there is nobody to wait for.
        let _ = self.script.wait();
    }
}
