//! Starts a ZooKeeper server, and runs contenders with kazoo, its client for Python. The server comes from a Debian package,
//! and kazoo from pip. The server is killed when its value is dropped, and by the kernel when this process is killed.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::bare_command;
use crate::fifo::eventually;

/// The contender with kazoo.
const CONTENDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/peers/kazoo_contender.py"
);

/// A running ZooKeeper server.
pub(crate) struct ZooKeeper {
    server: Child,
    address: String,
    python: PathBuf,
    _data: tempfile::TempDir,
}

impl ZooKeeper {
    pub(crate) fn start() -> Self {
        let [server, python] = ["zookeeper", "kazoo"].map(fetched);
        let data = tempfile::tempdir().expect("a temporary folder");
        let address = free_address();
        let (_, port) = address.rsplit_once(':').expect("an address with a port");
        let server = bare_command(server)
            .args([port, data.path().to_str().expect("the path is UTF-8")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server can be started");
        eventually("ZooKeeper starts", Duration::from_millis(100), || {
            TcpStream::connect(&address).is_ok()
        });
        Self {
            server,
            address,
            python,
            _data: data,
        }
    }

    /// Returns a contender for the lock `name` with `arguments`, as the program describes them.
    pub(crate) fn contender(&self, name: &str, shape: &str) -> Command {
        let mut contender = bare_command(&self.python);
        contender.args([CONTENDER, &self.address, name, shape]);
        contender
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    address.to_string()
}

/// Returns the path of `program`, which is fetched if it is missing.
fn fetched(program: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/fetch");
    let found = Command::new(script)
        .args(["--path", program])
        .stderr(Stdio::inherit())
        .output()
        .expect("tests/servers/fetch can be run");
    assert!(found.status.success(), "{program} cannot be fetched");
    let path = String::from_utf8(found.stdout).expect("the path is UTF-8");
    path.trim_end().into()
}
