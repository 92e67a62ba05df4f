//! Starts a ZooKeeper server, and runs contenders with two of its clients: kazoo for Python, and Apache Curator for Java. The
//! server and Curator come from Debian packages, and kazoo from pip. The server is killed when its value is dropped, and by
//! the kernel when this process is killed.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::bench::{bare, tied};
use testkit::cli_runner::eventually;
use testkit::middle::free_port;

const KAZOO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/queue/kazoo_contender.py"
);

const CURATOR: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/queue/CuratorContender.java"
);

/// Options with which 30 contenders with Curator fit on a small machine, and start in a few seconds.
const JVM: [&str; 3] = ["-Xmx32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

#[derive(Clone, Copy)]
pub(crate) enum Client {
    Kazoo,
    Curator,
}

pub(crate) struct ZooKeeper {
    server: Child,
    address: String,
    python: PathBuf,
    java: PathBuf,
    classes: tempfile::TempDir,
    _data: tempfile::TempDir,
}

impl ZooKeeper {
    pub(crate) fn start() -> Self {
        let [server, python, java] =
            ["zookeeper", "kazoo", "curator"].map(testkit::servers::fetched);
        let classes = compiled(&java);
        let data = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let mut server = bare(server);
        server.arg(port.to_string()).arg(data.path());
        // The HTTP server for administrators always listens on port 8080, which may be in use.
        server.env("JDK_JAVA_OPTIONS", "-Dzookeeper.admin.enableServer=false");
        let server = tied(&server).spawn().expect("setpriv is installed");
        eventually("ZooKeeper starts", || TcpStream::connect(&address).is_ok());
        Self {
            server,
            address,
            python,
            java,
            classes,
            _data: data,
        }
    }

    /// Returns a contender with `client`. `kazoo_contender.py` describes its other arguments.
    pub(crate) fn contender(&self, client: Client) -> Command {
        let mut contender = match client {
            Client::Kazoo => {
                let mut python = bare(&self.python);
                python.arg(KAZOO);
                python
            }
            Client::Curator => {
                let mut java = bare(&self.java);
                java.env("CLASSPATH", self.classes.path());
                java.args(JVM).arg("CuratorContender");
                java
            }
        };
        contender.arg(&self.address);
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
    let compiler = bare(java)
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
