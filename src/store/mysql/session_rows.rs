//! Reads the sessions of commands: the note in a record, and the rows of the server's process list.

use mysql::Row;

use super::columns::{first_row, flag, optional, required, text};
use crate::store::Failure;
use crate::store::session::{
    ListedSession, ProcessList, ServerInstance, ServerSession, SessionNote,
};
use crate::store::session_states::{VisibleSession, VisibleSessions};

/// Reads the rows of a `process_list` statement. The caller adds dlock's own connection.
pub(super) fn process_list(sets: &[Vec<Row>]) -> Result<ProcessList, Failure> {
    let first = first_row(sets)?;
    let own: u64 = required(first, "own")?;
    let mut own_client = None;
    let mut sessions = Vec::new();
    for row in sets.iter().flatten() {
        let Some(id) = optional(row, "id")? else {
            continue;
        };
        if id == own {
            own_client = Some(text(row, "host")?);
            continue;
        }
        sessions.push(listed_session(row, id)?);
    }
    Ok(ProcessList {
        instance: server_instance(first)?,
        port: required(first, "server_port")?,
        own_client,
        own_connection: None,
        sessions,
    })
}

/// Reads the rows of a `session_states` statement.
pub(super) fn visible_sessions(sets: &[Vec<Row>]) -> Result<VisibleSessions, Failure> {
    let first = first_row(sets)?;
    let own: u64 = required(first, "own")?;
    let mut own_account = None;
    let mut sessions = Vec::new();
    for row in sets.iter().flatten() {
        match optional(row, "id")? {
            None => {}
            Some(id) if id == own => own_account = Some(text(row, "user")?),
            Some(id) => sessions.push(VisibleSession {
                listed: listed_session(row, id)?,
                statement: Some(text(row, "statement")?).filter(|text| !text.is_empty()),
            }),
        }
    }
    Ok(VisibleSessions {
        instance: server_instance(first)?,
        own_account,
        sees_all: flag(first, "sees_all")?,
        sessions,
    })
}

fn listed_session(row: &Row, id: u64) -> Result<ListedSession, Failure> {
    let seconds: i64 = optional(row, "time")?.unwrap_or(0);
    let pid = text(row, "client_pid")?;
    Ok(ListedSession {
        session: ServerSession {
            id,
            account: text(row, "user")?,
            client: text(row, "host")?,
        },
        command: text(row, "command")?,
        state: text(row, "state")?,
        seconds: u64::try_from(seconds).unwrap_or(0),
        pid: pid.parse().ok(),
    })
}

fn server_instance(row: &Row) -> Result<ServerInstance, Failure> {
    Ok(ServerInstance {
        server: text(row, "server")?,
        started: required(row, "started")?,
    })
}

/// Returns the noted sessions. None if there are none, or if a newer dlock wrote a note that this dlock cannot read.
pub(super) fn session_note(row: &Row) -> Result<Option<SessionNote>, Failure> {
    let text: Option<Vec<u8>> = optional(row, "sessions")?;
    Ok(text.and_then(|text| SessionNote::from_text(&text)))
}
