//! Sessions of other programs, which dlock never ends: of its caller, of a program that uses the port of an ended
//! connection, and of programs with the port of a connection that leads to another server or through a NAT.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use dlock::sys::proc::descendants;
use dlock::sys::tcp::SocketFinder;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, signal, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::connect;

use super::limits::second_account;
use super::scene::{COMMAND, Scene};

/// A Perl script that connects to the address `$1` and the port `$2` from the local port `$3`, tells the fifo `$4`, and
/// exits with 3 after a message on the fifo `$5`.
const CONNECT_FROM: &str = r#"
    use Socket;
    my ($address, $port, $from, $ready, $go) = @ARGV;
    socket(S, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    # IP_LOCAL_PORT_RANGE. Several connections to different servers can have the same local port.
    setsockopt(S, 0, 51, pack("L", $from | $from << 16)) or die "setsockopt: $!";
    connect(S, pack_sockaddr_in($port, inet_aton($address))) or die "connect: $!";
    open(R, ">", $ready); print R "connected\n"; close(R);
    open(G, "<", $go); <G>; exit 3;
"#;

/// A bash script that opens a connection to the port `$1` of this machine, tells the fifo `$2`, closes the connection after
/// a message on the fifo `$3`, tells `$2` again, and exits with 3 after another message.
const CONNECT_AND_CLOSE: &str = r#"
    exec 3<>/dev/tcp/127.0.0.1/"$1"
    echo connected > "$2"
    read word < "$3"
    cat <&3 > /dev/null
    exec 3>&-
    echo closed > "$2"
    read word < "$3"
    exit 3
"#;

/// The session of a program that is not a command.
pub(super) struct Bystander(Conn);

impl Bystander {
    pub(super) fn on(database: &Database) -> Self {
        Self(connect(&database.url()).expect("a session can be opened"))
    }

    /// Opens a session from this local port.
    fn from_port(database: &Database, port: u16) -> mysql::Result<Self> {
        let options = Opts::from_url(&database.url())?;
        let options = OptsBuilder::from_opts(options)
            .prefer_socket(false)
            .bind_address(Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)));
        Conn::new(options).map(Self)
    }

    pub(super) fn socket(&mut self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn port(&mut self) -> u16 {
        let connection = dlock::sys::tcp::connection_of_raw(self.socket());
        connection.expect("a TCP connection").local.port()
    }

    #[track_caller]
    pub(super) fn assert_is_alive(&mut self) {
        let answer = self.0.query_drop("DO 0");
        assert!(answer.is_ok(), "the session has ended: {answer:?}");
    }
}

on_each_flavour!(dlock_does_not_wait_for_a_session_of_its_caller_that_it_may_not_kill);
fn dlock_does_not_wait_for_a_session_of_its_caller_that_it_may_not_kill(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let own = &scene.database.user;
    let mut other = scene.database.clone();
    other.user = second_account(&scene.database);
    scene
        .database
        .run(format!("GRANT PROCESS ON *.* TO '{own}'@'%'"));
    let mut caller = Bystander::on(&other);
    let exec = scene.exec().inherit(caller.socket());
    let (holder, client) = scene.start_noted(exec, COMMAND);
    signal(client, "KILL");
    holder.wait().expect(137, "", super::ENDED);
    caller.assert_is_alive();
}

on_each_flavour!(a_session_on_the_port_of_an_ended_connection_lives);
fn a_session_on_the_port_of_an_ended_connection_lives(flavour: Flavour) {
    let database = shared(flavour).database("reused");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::typed(&database, "exec -a init --ttl 1m -- bash")
        .args(["-c", CONNECT_AND_CLOSE, "bash"])
        .arg(database.port.to_string())
        .args([&ready, &go])
        .start();
    assert_eq!(read_message(&ready), "connected");
    holder.wait_for_output("dlock doctor --session-user USER shows the missing privilege");
    let port = port_of_command(&holder, database.port);
    holder.signal("STOP");
    // The command reads until the server has closed its end, so that the port is free as soon as the command closes its own.
    let query = format!("SELECT id FROM information_schema.processlist WHERE host LIKE '%:{port}'");
    let session: u64 = database.value(query);
    database.run(format!("KILL {session}"));
    write_message(&go, "close");
    assert_eq!(read_message(&ready), "closed");
    let mut bystander = None;
    eventually("the port is free", || {
        bystander = Bystander::from_port(&database, port).ok();
        bystander.is_some()
    });
    write_message(&go, "exit");
    holder.wait_after("CONT").expect(3, "", "will not be ended");
    bystander.expect("the port is free").assert_is_alive();
}

on_each_flavour!(a_session_lives_if_the_command_has_its_port_on_another_loopback_server);
fn a_session_lives_if_the_command_has_its_port_on_another_loopback_server(flavour: Flavour) {
    let database = shared(flavour).database("loopback");
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let _other_server = TcpListener::bind((other, database.port)).expect("the port is free");
    let mut bystander = Bystander::on(&database);
    let message = "another program may have the sessions";
    let (url, from) = (database.url(), bystander.port());
    command_with_a_connection(&url, SocketAddrV4::new(other, database.port), from, message);
    bystander.assert_is_alive();
}

on_each_flavour!(a_session_behind_the_same_nat_lives);
fn a_session_behind_the_same_nat_lives(flavour: Flavour) {
    let database = shared(flavour).database("nat");
    let (machine, gateway) = (Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 1));
    let mut bystander = Bystander::on(&database);
    let from = bystander.port();
    let (sender, receiver) = mpsc::channel();
    // A new network namespace belongs to one thread and to the processes that it starts.
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call affects only this thread.
            let unshared = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(unshared, 0, "run the tests as root");
            ip(&["link", "set", "lo", "up"]);
            for address in [machine, gateway] {
                ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]);
            }
            let nat = TcpListener::bind((gateway, 0)).expect("the address exists");
            let port = nat.local_addr().expect("a local address").port();
            sender.send(nat).expect("the receiver exists");
            let url = database.url_through(port);
            let url = url.replace("127.0.0.1", &gateway.to_string());
            let message = "a proxy or a router changes the addresses";
            command_with_a_connection(&url, SocketAddrV4::new(gateway, port), from, message);
        });
        let nat = receiver.recv().expect("the namespace is ready");
        thread::spawn(move || {
            translate(&nat, SocketAddr::from(([127, 0, 0, 1], database.port)));
        });
    });
    bystander.assert_is_alive();
}

/// Runs dlock on the server of `url`. Its command has a connection to `server` from the local port `from`, and fails when
/// dlock has printed `message`.
fn command_with_a_connection(url: &str, server: SocketAddrV4, from: u16, message: &str) {
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::new(["exec", "-a", "init", "--", "perl", "-e", CONNECT_FROM])
        .env("DLOCK_URL", url)
        // Only a server on this machine may be reached without TLS by default.
        .env("DLOCK_SSL_MODE", "disabled")
        .arg(server.ip().to_string())
        .args([server.port().to_string(), from.to_string()])
        .args([&ready, &go])
        .start();
    assert_eq!(read_message(&ready), "connected");
    holder.wait_for_output(message);
    write_message(&go, "exit");
    holder.wait().expect(3, "", "will not be ended");
}

/// Passes connections on to `server`, like a NAT: from the port of the client if it is free, or else from another port.
fn translate(nat: &TcpListener, server: SocketAddr) {
    for client in nat.incoming() {
        let client = client.expect("a connection");
        let port = client.peer_addr().expect("a connected socket").port();
        let translated = connect_from(port, server).or_else(|_| TcpStream::connect(server));
        let translated = translated.expect("the server accepts");
        for (from, to) in [(&client, &translated), (&translated, &client)] {
            let from = from.try_clone().expect("a descriptor");
            let to = to.try_clone().expect("a descriptor");
            thread::spawn(move || {
                let _ = io::copy(&mut &from, &mut &to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    }
}

fn connect_from(port: u16, server: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    connect(&socket, &server)?;
    Ok(socket.into())
}

/// Returns the local port of the command's connection to the port `server` of this machine.
fn port_of_command(holder: &Running, server: u16) -> u16 {
    let sockets = SocketFinder::default().sockets_of(descendants(holder.pid()));
    let mut sockets = sockets.tcp.iter();
    let socket = sockets.find(|socket| socket.connection.remote.port() == server);
    socket.expect("a connection of the command").port()
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    assert!(status.expect("ip runs").success(), "ip {arguments:?}");
}
