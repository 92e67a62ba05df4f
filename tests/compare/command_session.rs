//! A session on a real server that renewals note as the session of a command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process;
use std::time::Duration;

use dlock::lease::Token;
use dlock::store::mysql::Database;
use dlock::store::session::{CommandConnections, SessionLook, SessionNote, SessionPolicy};
use dlock::store::{Contender, EndSessionsRequest, Request, Response, Store};
use dlock::sys::tcp::{TcpSocket, connection_of_raw};
use mysql::Conn;
use testkit::own_socket::{connect, socket_of};
use testkit::servers;

use crate::server_contender::target;

const LIMIT: Duration = Duration::from_mins(10);

/// An open session, which no contender kills.
pub(crate) struct CommandSession {
    _session: Conn,
    /// The note of the session.
    pub(crate) note: SessionNote,
}

/// Maximum number of sessions that [`CommandSession::open`] opens until dlock finds one.
const MAX_SESSIONS: usize = 20;

impl CommandSession {
    /// Opens a session. dlock's own code finds it by its socket, unless another socket of this machine has the same port.
    pub(crate) fn open(database: &servers::Database, contender: &Contender) -> Self {
        let sessions = std::iter::repeat_with(|| Self::try_open(database, contender));
        let found = sessions.take(MAX_SESSIONS).flatten().next();
        found.expect("dlock finds the session")
    }

    /// Opens a session. Returns None if dlock does not find it.
    fn try_open(database: &servers::Database, contender: &Contender) -> Option<Self> {
        // dlock's account sees only its own sessions.
        let mut session = connect(&database.url()).expect("the server is reachable");
        let descriptor = socket_of(&mut session);
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
        let mut own = Database::new(target(database, database.port), LIMIT, LIMIT);
        match own.request(contender, &request).outcome {
            Ok(Response::Sessions(left)) => left.found.note.map(|note| Self {
                _session: session,
                note,
            }),
            other => panic!("the server does not look for the session: {other:?}"),
        }
    }
}
