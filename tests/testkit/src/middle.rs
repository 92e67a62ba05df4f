//! Starts HAProxy and MySQL Router between dlock and a server.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::cli_runner::eventually;
use crate::command::Stage;
use crate::servers::{Server, fetched};

/// Name of the Unix socket on which HAProxy reads commands.
const ADMIN_SOCKET: &str = "admin";

/// A running program that forwards connections. Dropping this value ends the program.
pub struct Middle {
    child: Child,
    port: u16,
    stage: Stage,
}

impl Middle {
    #[track_caller]
    pub fn haproxy(server: &Server) -> Self {
        Self::haproxy_with_timeout(server, "1h")
    }

    /// Starts HAProxy in TCP mode. It ends connections on which nothing was sent for `timeout`.
    #[track_caller]
    pub fn haproxy_with_timeout(server: &Server, timeout: &str) -> Self {
        let (stage, port) = (Stage::new(), free_port());
        let config = stage.path("haproxy.cfg");
        let text = format!(
            "global\n stats socket {} level admin\n\
             defaults\n mode tcp\n timeout connect 5s\n timeout client {timeout}\n timeout server {timeout}\n\
             listen mysql\n bind 127.0.0.1:{port}\n server one 127.0.0.1:{}\n",
            stage.path(ADMIN_SOCKET).display(),
            server.port()
        );
        fs::write(&config, text).expect("the folder can be written");
        Self::start(&fetched("haproxy"), &["-db", "-f"], &config, port, stage)
    }

    /// Starts MySQL Router. If `shares` is true, its route shares connections, for which clients must use TLS.
    #[track_caller]
    pub fn router(server: &Server, shares: bool) -> Self {
        Self::start_router(server, shares, Stage::new(), free_port())
    }

    #[track_caller]
    fn start_router(server: &Server, shares: bool, stage: Stage, port: u16) -> Self {
        let router = fetched("mysqlrouter");
        let folder = router.ancestors().nth(2).expect("a program is in bin");
        let plugins = fs::canonicalize(folder.join("root/usr/lib/mysqlrouter/plugin"))
            .expect("the packages contain the plugins");
        let data = server.dir().join("data");
        // The server has created a certificate.
        let tls = match shares {
            true => format!(
                "client_ssl_mode=PREFERRED\nserver_ssl_mode=PREFERRED\nconnection_sharing=1\n\
                 client_ssl_cert={data}/server-cert.pem\nclient_ssl_key={data}/server-key.pem\n",
                data = data.display()
            ),
            false => "client_ssl_mode=DISABLED\nserver_ssl_mode=DISABLED\n".to_owned(),
        };
        let config = stage.path("router.conf");
        let folder = config.parent().expect("a file is in a folder").display();
        let text = format!(
            "[DEFAULT]\nplugin_folder={}\nlogging_folder=\nruntime_folder={folder}\ndata_folder={folder}\n\
             [routing:mysql]\nbind_address=127.0.0.1\nbind_port={port}\ndestinations=127.0.0.1:{}\n\
             routing_strategy=first-available\nprotocol=classic\n{tls}",
            plugins.display(),
            server.port()
        );
        fs::write(&config, text).expect("the folder can be written");
        Self::start(&router, &["-c"], &config, port, stage)
    }

    /// Ends MySQL Router, which ends the connections of its clients, and starts it on the same port with a route to
    /// `server`.
    #[track_caller]
    pub fn restart_router(&mut self, server: &Server) {
        self.end();
        *self = Self::start_router(server, false, Stage::new(), self.port);
    }

    #[track_caller]
    fn start(program: &Path, options: &[&str], config: &Path, port: u16, stage: Stage) -> Self {
        // The shell kills the program when the pipe closes, which also happens when the test process dies.
        let script = r#""$@" </dev/null & read line; kill -KILL $!; wait"#;
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(program)
            .args(options)
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        eventually("the program accepts connections", || {
            let ended = child.try_wait().expect("the child can be waited for");
            assert!(ended.is_none(), "{} ended: {ended:?}", program.display());
            let connection = TcpStream::connect(("127.0.0.1", port));
            // Both programs send the greeting of the server.
            connection.is_ok_and(|mut connection| connection.read(&mut [0; 1]).is_ok())
        });
        Self { child, port, stage }
    }

    /// Makes HAProxy connect new clients to `server`, and ends the current connections.
    #[track_caller]
    pub fn lead_to(&self, server: &Server) {
        let port = server.port();
        for command in [
            format!("set server mysql/one addr 127.0.0.1 port {port}"),
            "shutdown sessions server mysql/one".to_owned(),
        ] {
            let socket = UnixStream::connect(self.stage.path(ADMIN_SOCKET));
            let mut socket = socket.expect("HAProxy has a socket for commands");
            writeln!(socket, "{command}").expect("HAProxy reads commands");
            let mut answer = String::new();
            let read = socket.read_to_string(&mut answer);
            read.expect("HAProxy answers with text");
            let is_done = answer.trim().is_empty() || answer.contains("changed");
            assert!(is_done, "{command}: {answer}");
        }
    }

    /// Ends the program, also if it has already ended.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        // The wait fails only if the process no longer exists.
        let _ = self.child.wait();
    }

    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a port without a listener, below the ports that the kernel assigns to clients.
pub fn free_port() -> u16 {
    loop {
        let random = getrandom::u32().expect("the system has random numbers");
        let port = 10_000 + u16::try_from(random % 22_000).expect("the number is small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
