//! A session on a real server that renewals note as the session of a command.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::process;

use dlock::lease::Token;
use dlock::store::mysql::Database;
use dlock::store::session::{CommandConnections, SessionLook, SessionNote, SessionPolicy};
use dlock::store::{Contender, EndSessionsRequest, Request, Response, Store};
use dlock::sys::tcp::{TcpSocket, connection_of_raw};
use mysql::Conn;
use testkit::servers;
use testkit::sql::connect;

/// Maximum number of sessions that [`open`] opens until dlock finds one.
const MAX_SESSIONS: usize = 20;

/// Opens a session, and returns it with its note. dlock's own code finds it by its socket, unless another socket of this
/// machine has the same port.
pub(crate) fn open(
    database: &servers::Database,
    own: &mut Database,
    contender: &Contender,
) -> (Conn, SessionNote) {
    for _ in 0..MAX_SESSIONS {
        // dlock's account sees only its own sessions.
        let session = connect(&database.url()).expect("the server is reachable");
        let descriptor = session.as_raw_fd();
        let status = fs::metadata(format!("/proc/self/fd/{descriptor}"));
        let socket = TcpSocket {
            connection: connection_of_raw(descriptor).expect("a TCP connection"),
            inode: status.expect("the socket is open").ino(),
            file: (process::id(), descriptor),
        };
        let look = SessionLook {
            token: Token(0),
            policy: SessionPolicy::Kill,
            connections: CommandConnections {
                tcp: [socket].into(),
                ..CommandConnections::default()
            },
            note: None,
        };
        let request = Request::EndSessions(Box::new(EndSessionsRequest {
            look,
            on_other_host: false,
            kill: false,
            skip: Vec::new(),
        }));
        let outcome = own.request(contender, &request).outcome;
        let Ok(Response::Sessions(left)) = outcome else {
            panic!("the server does not look for the session: {outcome:?}");
        };
        if let Some(note) = left.found.note {
            return (session, note);
        }
    }
    panic!("dlock does not find the session")
}
