//! A session on a real server that renewals note as the session of a command.

use std::time::Duration;

use dlock::lease::Token;
use dlock::store::mysql::Database;
use dlock::store::session::{CommandConnections, SessionLook, SessionNote, SessionPolicy};
use dlock::store::{Contender, EndSessionsRequest, Request, Response};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use crate::server_contender::target;
use crate::servers;

const LIMIT: Duration = Duration::from_mins(10);

/// An open session, which no contender kills.
pub(crate) struct CommandSession {
    _session: Conn,
    /// The note of the session.
    pub(crate) note: SessionNote,
}

impl CommandSession {
    /// Opens a session. dlock's own code finds it by the port of its connection.
    pub(crate) fn open(database: &servers::Database, contender: &Contender) -> Self {
        // dlock's account sees only its own sessions.
        let options = OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(database.port)
            .prefer_socket(false)
            .user(Some(&database.user))
            .pass(Some(&database.password));
        let mut session = Conn::new(options).expect("the server is reachable");
        let host: Option<String> = session
            .query_first("SELECT host FROM information_schema.processlist WHERE id=CONNECTION_ID()")
            .expect("the process list is readable");
        let host = host.expect("the session is listed");
        let (_, port) = host.rsplit_once(':').expect("a TCP connection");
        let port = port.parse().expect("a port");
        let look = SessionLook {
            token: Token(0),
            policy: SessionPolicy::Kill,
            connections: CommandConnections {
                tcp: [(port, database.port)].into(),
                ..CommandConnections::default()
            },
            note: None,
        };
        let request = Request::EndSessions(Box::new(EndSessionsRequest {
            look,
            kill: false,
            skip: Vec::new(),
        }));
        let mut own = Database::new(target(database, database.port), LIMIT, LIMIT);
        match own.request(contender, &request).outcome {
            Ok(Response::Sessions(left)) => Self {
                _session: session,
                note: left.found.note.expect("the session is found"),
            },
            other => panic!("the session is not found: {other:?}"),
        }
    }
}
