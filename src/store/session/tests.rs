//! The rule that decides which sessions of the process list are the command's.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{
    CommandConnections, FoundSessions, ListedSession, MAX_NOTE, ProcessList, ServerInstance,
    ServerSession, SessionLook, SessionNote, SessionPolicy, Untraceable,
};
use crate::lease::Token;
use crate::sys::tcp::TcpConnection;

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

fn look(ports: &[u16], note: Option<SessionNote>) -> SessionLook {
    SessionLook {
        token: Token(5),
        policy: SessionPolicy::Kill,
        connections: CommandConnections {
            tcp: ports.iter().map(|port| (*port, SERVER_PORT)).collect(),
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
fn sessions_are_found_by_their_port_and_the_host_of_dlocks_own_session() {
    let sessions = vec![
        session(1, "10.0.0.3:50001"),
        session(2, "10.0.0.4:50002"),
        session(3, "10.0.0.3:50003"),
    ];
    let list = list("10.0.0.3", "10.0.0.3", sessions);
    let found = look(&[50_001, 50_002], None).find(&list);
    assert_eq!(ids(&found), [1]);
    assert_eq!(found.unseen, [50_002], "the port of another host");
    let noted = found.note.expect("one session");
    assert_eq!(noted.sessions, [session(1, "10.0.0.3:50001").session]);
    assert_eq!((noted.instance, noted.token), (instance(7), Token(5)));
}

#[test]
fn names_and_addresses_of_the_loopback_interface_are_the_same_host() {
    for (own, local) in [
        ("localhost", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]"),
    ] {
        for client in ["localhost:50001", "127.0.0.1:50001", "::1:50001"] {
            let list = list(own, local, vec![session(1, client)]);
            let found = look(&[50_001], None).find(&list);
            assert_eq!(ids(&found), [1], "{own}, {client}");
        }
    }
}

#[test]
fn a_port_that_two_sessions_have_belongs_to_neither() {
    let sessions = vec![session(1, "localhost:50001"), session(2, "localhost:50001")];
    let found = look(&[50_001], None).find(&list("localhost", "127.0.0.1", sessions));
    assert_eq!(ids(&found), [0; 0]);
    assert_eq!(found.unseen, [50_001]);
}

#[test]
fn a_session_that_still_logs_in_is_not_noted() {
    let mut one = session(1, "localhost:50001");
    one.session.account = "unauthenticated user".to_owned();
    let found = look(&[50_001], None).find(&list("localhost", "127.0.0.1", vec![one]));
    assert_eq!(found.note, None);
    // The caller looks again soon.
    assert_eq!(found.unseen, [50_001]);
}

#[test]
fn changed_addresses_are_detected() {
    let sessions = || vec![session(1, "10.0.0.9:50001")];
    let mut port = list("10.0.0.9", "10.0.0.9", sessions());
    port.own_client = Some("10.0.0.9:50999".to_owned());
    let address = list("10.0.0.9", "192.168.1.2", sessions());
    let mut unlisted = list("10.0.0.9", "10.0.0.9", sessions());
    unlisted.own_client = None;
    for (list, why) in [
        (port, Untraceable::Translated),
        (address, Untraceable::Translated),
        (unlisted, Untraceable::NoProcessList),
    ] {
        let found = look(&[50_001], None).find(&list);
        assert_eq!(found.untraceable, Some(why));
        assert_eq!(found.note, None);
    }
    // A host name cannot be compared with the local address.
    let name = list(
        "web-1.example.org",
        "10.0.0.9",
        vec![session(1, "web-1.example.org:50001")],
    );
    assert_eq!(ids(&look(&[50_001], None).find(&name)), [1]);
}

#[test]
fn noted_sessions_remain_until_they_are_not_listed() {
    let client = "localhost:50001";
    let listed = list("localhost", "127.0.0.1", vec![session(1, client)]);
    let noted = |note| ids(&look(&[], Some(note)).find(&listed));
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
    let found = look(&[], Some(elsewhere.clone())).find(&listed);
    assert_eq!((ids(&found), found.note), (vec![], Some(elsewhere)));
    // The account can change during a session.
    let mut other = session(1, client);
    other.session.account = "admin".to_owned();
    let changed = list("localhost", "127.0.0.1", vec![other]);
    assert_eq!(ids(&look(&[], Some(note(1, client))).find(&changed)), [1]);
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
    assert_eq!(ids(&look.find(&socket)), [1]);
    assert_eq!(
        ids(&look.find(&list("localhost", "127.0.0.1", sessions.clone()))),
        [1]
    );
    let distant = list("10.0.0.3", "10.0.0.3", sessions);
    assert_eq!(
        ids(&look.find(&distant)),
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
    let mut look = look(&[50_001], None);
    assert_eq!(ids(&look.find(&socket)), [1]);
    look.connections.tcp = [(50_001, 3307)].into();
    let found = look.find(&socket);
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
