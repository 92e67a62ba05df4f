//! Finds the sessions that a command has on the server, and ends them.

use super::connection::Connection;
use super::database::Database;
use super::exchange::RequestKind;
use super::{rows, session_rows, statements};
use crate::store::session::{CommandConnections, FoundSessions, SessionLook};
use crate::store::session_states::SessionStates;
use crate::store::{EndSessionsRequest, Failure, FailureKind, Response, SessionsLeft, Snapshot};

impl Database {
    /// Reads the states of the sessions that the records in `snapshot` contain, and their statements if `statements` is
    /// true. Sends no request if the records contain no sessions. A failure must not prevent `status` from showing the
    /// records, so it is stored in `snapshot` too.
    pub fn read_session_states(&mut self, snapshot: &mut Snapshot, statements: bool) {
        let notes = snapshot.locks.iter().flat_map(|record| &record.sessions);
        let sessions = notes.flat_map(|note| &note.sessions);
        let ids: Vec<u64> = sessions.map(|session| session.id).collect();
        if ids.is_empty() {
            return;
        }
        let packet = statements::session_states(&ids, statements);
        let outcome = self.exchange(RequestKind::Plain, &packet, session_rows::visible_sessions);
        snapshot.sessions = match outcome {
            Ok(visible) => SessionStates::Known(visible),
            Err(failure) => SessionStates::Failed(failure),
        };
    }

    /// Returns the sessions that `look` asks for, or the failure that prevented dlock from reading them. None without a
    /// `look`. A failure must not prevent the renewal that follows, so it is returned as a value.
    pub(super) fn look(
        &mut self,
        look: Option<&SessionLook>,
    ) -> Option<Result<FoundSessions, Failure>> {
        let look = look?;
        Some(match look.is_empty() {
            true => Ok(FoundSessions::default()),
            false => self.find_sessions(look).map(|(found, _)| found),
        })
    }

    /// Returns the sessions in the process list that `look` asks for, and the name of the server.
    fn find_sessions(&mut self, look: &SessionLook) -> Result<(FoundSessions, String), Failure> {
        let packet = statements::process_list(look);
        let mut list = self.exchange(RequestKind::Plain, &packet, session_rows::process_list)?;
        let connection = self.connection.as_ref();
        list.own_connection = connection.and_then(Connection::tcp_connection);
        let found = look.find(&list);
        Ok((found, list.instance.server))
    }

    /// Looks for the sessions that a command has left, and kills those that the request does not skip, if it says so.
    pub(super) fn end_sessions(
        &mut self,
        request: &EndSessionsRequest,
    ) -> Result<Response, Failure> {
        let (found, server) = self.find_sessions(&request.look)?;
        let noted = request.look.note.as_ref();
        let elsewhere = noted
            .map(|note| &note.instance.server)
            .filter(|noted| **noted != server);
        let ids = found.listed.iter().map(|listed| listed.session.id);
        let ids: Vec<u64> = ids
            .filter(|id| request.kill && !request.skip.contains(id))
            .collect();
        let look = SessionLook {
            connections: CommandConnections::default(),
            note: found.note.clone(),
            ..request.look.clone()
        };
        let (killed, denied) = match ids.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => self.kill_sessions(&look, &ids)?,
        };
        Ok(Response::Sessions(Box::new(SessionsLeft {
            elsewhere: elsewhere.cloned(),
            found,
            killed,
            denied,
        })))
    }

    /// Kills the sessions in `look` that have one of `ids`. Returns the ids of the sessions that were killed, and of those
    /// that this account may not kill.
    ///
    /// Uses a second connection. The server reports an error if a session has ended before it is killed, and after any
    /// error the connection is dropped. The first connection owns the queue lock. The ids are read again on the second
    /// connection, because a restarted server may assign the same id to a different session.
    fn kill_sessions(
        &mut self,
        look: &SessionLook,
        ids: &[u64],
    ) -> Result<(Vec<u64>, Vec<u64>), Failure> {
        let (target, limit, idle) = (&self.target, self.limit, self.idle);
        let second = self
            .second
            .get_or_insert_with(|| Box::new(Self::new(target.clone(), limit, idle)));
        let (found, _) = second.find_sessions(look)?;
        let found = found.listed.iter().map(|listed| listed.session.id);
        let (mut killed, mut denied) = (Vec::new(), Vec::new());
        for id in found.filter(|id| ids.contains(id)) {
            // The previous KILL failed. The next step of the request looks again.
            if second.connection.is_none() {
                break;
            }
            let kill = statements::kill_session(id);
            match second.exchange(RequestKind::Plain, &kill, rows::is_confirmed) {
                Ok(_) => killed.push(id),
                Err(failure) if failure.kind == FailureKind::Denied => denied.push(id),
                // The session has ended, or the connection is lost.
                Err(_) => {}
            }
        }
        Ok((killed, denied))
    }
}
