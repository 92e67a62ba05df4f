//! Starts a ZooKeeper server, and runs contenders with two of its clients: kazoo for Python, and Apache Curator for Java. The
//! server and Curator come from Debian packages, and kazoo from pip. The server is killed when its value is dropped, and by
//! the kernel when this process is killed.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::bench::fifo::eventually;

use crate::bare_command;

/// The contender with kazoo.
const KAZOO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/queue/kazoo_contender.py"
);

/// The source of the contender with Curator.
const CURATOR: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/queue/CuratorContender.java"
);

/// Options with which 30 contenders with Curator fit on a small machine, and start in a few seconds.
const JVM: [&str; 3] = ["-Xmx32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// A client of ZooKeeper.
#[derive(Clone, Copy)]
pub(crate) enum Client {
    Kazoo,
    Curator,
}

/// A running ZooKeeper server.
pub(crate) struct ZooKeeper {
    server: Child,
    address: String,
    python: PathBuf,
    java: PathBuf,
    /// The folder of the compiled contender with Curator.
    classes: tempfile::TempDir,
    _data: tempfile::TempDir,
}

impl ZooKeeper {
    pub(crate) fn start() -> Self {
        let [server, python, java] = ["zookeeper", "kazoo", "curator"].map(fetched);
        let classes = compiled(&java);
        let data = tempfile::tempdir().expect("a temporary folder");
        let address = free_address();
        let (_, port) = address.rsplit_once(':').expect("an address with a port");
        let server = bare_command(server)
            .args([port, data.path().to_str().expect("the path is UTF-8")])
            // The HTTP server for administrators always listens on port 8080, which may be in use.
            .env("JDK_JAVA_OPTIONS", "-Dzookeeper.admin.enableServer=false")
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
            java,
            classes,
            _data: data,
        }
    }

    /// Returns a contender with `client` for the lock `name`. `kazoo_contender.py` describes its other arguments.
    pub(crate) fn contender(&self, client: Client, name: &str, shape: &str) -> Command {
        let mut contender = match client {
            Client::Kazoo => {
                let mut python = bare_command(&self.python);
                python.arg(KAZOO);
                python
            }
            Client::Curator => {
                let mut java = bare_command(&self.java);
                java.env("CLASSPATH", self.classes.path());
                java.args(JVM).arg("CuratorContender");
                java
            }
        };
        contender.args([&self.address, name, shape]);
        contender
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Compiles the contender with Curator. Returns the folder of its classes.
fn compiled(java: &Path) -> tempfile::TempDir {
    let classes = tempfile::tempdir().expect("a temporary folder");
    let compiler = bare_command(java)
        .args(["--module", "jdk.compiler/com.sun.tools.javac.Main", "-d"])
        .args([classes.path(), Path::new(CURATOR)])
        .stderr(Stdio::inherit())
        .status()
        .expect("java can be started");
    assert!(
        compiler.success(),
        "{CURATOR} cannot be compiled; install the compiler: apt-get install default-jdk-headless"
    );
    classes
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
