//! The rule that decides which sessions of the process list are the command's.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{
    CommandConnections, FoundSessions, ListedSession, MAX_NOTE, ProcessList, ServerInstance,
    ServerSession, SessionLook, SessionNote, SessionPolicy, SocketCheck, Untraceable,
};
use crate::lease::Token;
use crate::sys::tcp::{TcpConnection, TcpSocket};

const OWN_PORT: u16 = 50_000;
const SERVER_PORT: u16 = 3306;

fn instance(started: i64) -> ServerInstance {
    ServerInstance {
        server: "db:3306/1".to_owned(),
        started,
    }
}

fn session(id: u64, client: &str) -> ListedSession {
    ListedSession {
        session: ServerSession {
            id,
            account: "app".to_owned(),
            client: client.to_owned(),
        },
        command: "Query".to_owned(),
        state: String::new(),
        seconds: 1,
        pid: None,
    }
}

/// The sockets after the list was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sockets {
    /// The command still has all of its sockets. Another program has none with the same port.
    Open,
    /// The command has the sockets, and another program may have a socket with the same port to the same server.
    OpenTwice,
    /// The dead command has left the connections open.
    LeftOpen,
    /// The connections have ended.
    Gone,
}

impl SocketCheck for Sockets {
    fn is_open(&mut self, _: &TcpSocket) -> bool {
        matches!(self, Self::Open | Self::OpenTwice)
    }

    fn belongs_to_command(&mut self, _: &TcpSocket, is_exact: bool) -> bool {
        match self {
            Self::Open | Self::LeftOpen => true,
            Self::OpenTwice => is_exact,
            Self::Gone => false,
        }
    }
}

/// Returns a socket of the command that leads from `local` to the server with the port `server_port` on the same host.
fn socket(local: SocketAddr, server_port: u16) -> TcpSocket {
    TcpSocket {
        connection: TcpConnection {
            local,
            remote: SocketAddr::new(local.ip(), server_port),
        },
        inode: local.port().into(),
        file: (1, 3),
    }
}

/// Returns the process list of a server that sees dlock at `own_host`, and that dlock reaches from `local`.
fn list(own_host: &str, local: &str, sessions: Vec<ListedSession>) -> ProcessList {
    let local: SocketAddr = format!("{local}:{OWN_PORT}").parse().expect("an address");
    let remote = SocketAddr::new(local.ip(), SERVER_PORT);
    ProcessList {
        instance: instance(7),
        port: SERVER_PORT,
        own_client: Some(format!("{own_host}:{OWN_PORT}")),
        own_connection: Some(TcpConnection { local, remote }),
        sessions,
    }
}

/// Returns a look for the command's sockets with these addresses.
fn look(sockets: &[&str], note: Option<SessionNote>) -> SessionLook {
    let address = |text: &&str| text.parse().expect("an address");
    SessionLook {
        token: Token(5),
        policy: SessionPolicy::Kill,
        connections: CommandConnections {
            tcp: (sockets.iter())
                .map(|text| socket(address(text), SERVER_PORT))
                .collect(),
            pids: BTreeSet::new(),
        },
        note,
    }
}

fn note(id: u64, client: &str) -> SessionNote {
    SessionNote {
        instance: instance(7),
        token: Token(5),
        policy: SessionPolicy::Kill,
        sessions: vec![session(id, client).session],
    }
}

fn ids(found: &FoundSessions) -> Vec<u64> {
    found.listed.iter().map(|one| one.session.id).collect()
}

#[test]
fn sessions_are_found_by_their_address_and_port() {
    let sessions = vec![
        session(1, "10.0.0.3:50001"),
        session(2, "10.0.0.4:50002"),
        session(3, "10.0.0.3:50003"),
    ];
    let list = list("10.0.0.3", "10.0.0.3", sessions);
    let found = look(&["10.0.0.3:50001", "10.0.0.3:50002"], None).find(&list, &mut Sockets::Open);
    assert_eq!(ids(&found), [1]);
    assert_eq!(found.unseen, [50_002], "the port of another host");
    let noted = found.note.expect("one session");
    assert_eq!(noted.sessions, [session(1, "10.0.0.3:50001").session]);
    assert_eq!((noted.instance, noted.token), (instance(7), Token(5)));
    let found = look(&["10.0.0.4:50001"], None).find(&list, &mut Sockets::Open);
    assert_eq!(ids(&found), [0; 0], "the address of another interface");
}

#[test]
fn a_session_is_found_only_if_no_other_program_can_have_its_port() {
    let list = list("10.0.0.3", "10.0.0.3", vec![session(1, "10.0.0.3:50001")]);
    let find = |mut sockets| look(&["10.0.0.3:50001"], None).find(&list, &mut sockets);
    assert_eq!(ids(&find(Sockets::Open)), [1]);
    assert_eq!(ids(&find(Sockets::OpenTwice)), [1], "the address is exact");
    assert_eq!(ids(&find(Sockets::LeftOpen)), [1]);
    let gone = find(Sockets::Gone);
    assert_eq!((ids(&gone), gone.unproven), (vec![], vec![50_001]));
}

#[test]
fn an_ended_connection_without_a_session_is_not_reported() {
    let found = look(&["10.0.0.3:50001"], None).find(
        &list("10.0.0.3", "10.0.0.3", Vec::new()),
        &mut Sockets::Gone,
    );
    assert_eq!((found.unseen, found.unproven), (vec![], vec![]));
}

#[test]
fn localhost_is_the_name_of_each_loopback_address() {
    for (own, local) in [
        ("localhost", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]"),
    ] {
        let find = |client, mut sockets| {
            let list = list(own, local, vec![session(1, client)]);
            let found = look(&[&format!("{local}:50001")], None).find(&list, &mut sockets);
            ids(&found)
        };
        assert_eq!(find("localhost:50001", Sockets::Open), [1], "{own}");
        let twice = find("localhost:50001", Sockets::OpenTwice);
        assert_eq!(twice, [0; 0], "{own}: the name is not exact");
        let client = format!("{}:50001", local.trim_matches(['[', ']']));
        assert_eq!(find(&client, Sockets::OpenTwice), [1], "{own}");
        assert_eq!(find("127.0.0.9:50001", Sockets::Open), [0; 0], "{own}");
    }
}

#[test]
fn a_connection_to_another_loopback_address_is_not_exact() {
    let list = list(
        "127.0.0.1",
        "127.0.0.1",
        vec![session(1, "127.0.0.1:50001")],
    );
    let mut look = look(&[], None);
    let mut other = socket("127.0.0.1:50001".parse().expect("an address"), SERVER_PORT);
    other.connection.remote = "127.0.0.2:3306".parse().expect("an address");
    look.connections.tcp.insert(other);
    assert_eq!(ids(&look.find(&list, &mut Sockets::Open)), [1]);
    let found = look.find(&list, &mut Sockets::OpenTwice);
    assert_eq!((ids(&found), found.unproven), (vec![], vec![50_001]));
}

#[test]
fn a_port_that_two_sessions_have_belongs_to_neither() {
    let sessions = vec![session(1, "localhost:50001"), session(2, "localhost:50001")];
    let found = look(&["127.0.0.1:50001"], None).find(
        &list("localhost", "127.0.0.1", sessions),
        &mut Sockets::Open,
    );
    assert_eq!(ids(&found), [0; 0]);
    assert_eq!(found.unproven, [50_001]);
}

#[test]
fn a_session_that_still_logs_in_is_not_noted() {
    let mut one = session(1, "localhost:50001");
    one.session.account = "unauthenticated user".to_owned();
    let found = look(&["127.0.0.1:50001"], None).find(
        &list("localhost", "127.0.0.1", vec![one]),
        &mut Sockets::Open,
    );
    assert_eq!(found.note, None);
    // The caller looks again soon.
    assert_eq!(found.unseen, [50_001]);
}

#[test]
fn changed_addresses_and_names_are_detected() {
    let sessions = || vec![session(1, "10.0.0.9:50001"), session(2, "web-1:50001")];
    let mut port = list("10.0.0.9", "10.0.0.9", sessions());
    port.own_client = Some("10.0.0.9:50999".to_owned());
    let address = list("10.0.0.9", "192.168.1.2", sessions());
    let mut unlisted = list("10.0.0.9", "10.0.0.9", sessions());
    unlisted.own_client = None;
    let name = list("web-1", "10.0.0.9", sessions());
    for (list, why) in [
        (port, Untraceable::Translated),
        (address, Untraceable::Translated),
        (unlisted, Untraceable::NoProcessList),
        (name, Untraceable::Named),
    ] {
        let found = look(&["10.0.0.9:50001"], None).find(&list, &mut Sockets::Open);
        assert_eq!(found.untraceable, Some(why));
        assert_eq!(found.note, None);
    }
}

#[test]
fn noted_sessions_remain_until_they_are_not_listed() {
    let client = "localhost:50001";
    let listed = list("localhost", "127.0.0.1", vec![session(1, client)]);
    let noted = |note| ids(&look(&[], Some(note)).find(&listed, &mut Sockets::Gone));
    assert_eq!(noted(note(1, client)), [1]);
    assert_eq!(noted(note(2, client)), [0; 0], "another id");
    assert_eq!(noted(note(1, "localhost:50002")), [0; 0], "another client");
    let restarted = SessionNote {
        instance: instance(8),
        ..note(1, client)
    };
    assert_eq!(noted(restarted), [0; 0], "the server was restarted");
    let elsewhere = SessionNote {
        instance: ServerInstance {
            server: "other:3306/2".to_owned(),
            started: 7,
        },
        ..note(1, client)
    };
    let found = look(&[], Some(elsewhere.clone())).find(&listed, &mut Sockets::Gone);
    assert_eq!((ids(&found), found.note), (vec![], Some(elsewhere)));
    // The account can change during a session.
    let mut other = session(1, client);
    other.session.account = "admin".to_owned();
    let changed = list("localhost", "127.0.0.1", vec![other]);
    assert_eq!(
        ids(&look(&[], Some(note(1, client))).find(&changed, &mut Sockets::Gone)),
        [1]
    );
}

#[test]
fn a_noted_session_is_not_checked_again() {
    let client = "localhost:50001";
    let listed = list("localhost", "127.0.0.1", vec![session(1, client)]);
    let look = |note| look(&["127.0.0.1:50001"], note).find(&listed, &mut Sockets::OpenTwice);
    let found = look(None);
    assert_eq!((ids(&found), found.unproven), (vec![], vec![50_001]));
    let found = look(Some(note(1, client)));
    assert_eq!((ids(&found), found.unproven), (vec![1], vec![]));
    let found = look(Some(note(2, client)));
    assert_eq!((ids(&found), found.unproven), (vec![], vec![50_001]));
}

#[test]
fn sessions_on_the_unix_socket_are_found_by_the_process_id() {
    let local = |id, pid| ListedSession {
        pid,
        ..session(id, "localhost")
    };
    let mut remote = session(4, "10.0.0.4:50004");
    remote.pid = Some(77);
    let sessions = vec![
        local(1, Some(77)),
        local(2, Some(78)),
        local(3, None),
        remote,
    ];
    let mut look = look(&[], None);
    look.connections.pids.insert(77);
    let mut socket = list("localhost", "127.0.0.1", sessions.clone());
    socket.own_connection = None;
    socket.own_client = Some("localhost".to_owned());
    assert_eq!(ids(&look.find(&socket, &mut Sockets::Open)), [1]);
    assert_eq!(
        ids(&look.find(
            &list("localhost", "127.0.0.1", sessions.clone()),
            &mut Sockets::Open
        )),
        [1]
    );
    let distant = list("10.0.0.3", "10.0.0.3", sessions);
    assert_eq!(
        ids(&look.find(&distant, &mut Sockets::Open)),
        [0; 0],
        "the server is on another machine"
    );
}

#[test]
fn dlock_on_the_unix_socket_compares_the_port_of_the_server() {
    let mut socket = list(
        "localhost",
        "127.0.0.1",
        vec![session(1, "localhost:50001")],
    );
    socket.own_connection = None;
    socket.own_client = Some("localhost".to_owned());
    let mut look = look(&["127.0.0.1:50001"], None);
    assert_eq!(ids(&look.find(&socket, &mut Sockets::Open)), [1]);
    let local = "127.0.0.1:50001".parse().expect("an address");
    look.connections.tcp = [self::socket(local, 3307)].into();
    let found = look.find(&socket, &mut Sockets::Open);
    assert_eq!(
        (ids(&found), found.unseen),
        (vec![], vec![]),
        "another server"
    );
}

#[test]
fn notes_round_trip_and_fit_into_their_column() {
    let mut long = note(u64::MAX, "localhost:50001");
    let text = long.to_text();
    assert_eq!(SessionNote::from_text(text.as_bytes()), Some(long.clone()));
    let one = long.sessions[0].clone();
    long.sessions = vec![one; 1000];
    let text = long.to_text();
    assert!(text.len() <= MAX_NOTE, "{}", text.len());
    let read = SessionNote::from_text(text.as_bytes()).expect("a valid note");
    assert!(read.sessions.len() > 50, "{}", read.sessions.len());
    for text in ["", "{}", "null", "{\"server\":1}"] {
        assert_eq!(SessionNote::from_text(text.as_bytes()), None, "{text}");
    }
}
