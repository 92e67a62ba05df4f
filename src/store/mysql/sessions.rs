//! Finds the sessions that a command has on the server, and ends them.

use std::time::Duration;

use super::connection::Connection;
use super::database::Database;
use super::exchange::RequestKind;
use super::{rows, session_rows, statements};
use crate::lease::OwnerId;
use crate::store::session::{
    CommandConnections, FoundSessions, ListedSession, ServerSession, SessionLook, SessionNote,
    SocketsOfMachine,
};
use crate::store::session_states::{SessionState, SessionStates};
use crate::store::target::Target;
use crate::store::{
    Contender, EndSessionsRequest, Failure, FailureKind, LockRecord, NotePlace, NoteRequest, Noted,
    Response, SessionsLeft, Snapshot,
};

impl Database {
    /// Reads the states of the sessions that the records in `snapshot` contain, and their statements if `statements` is
    /// true. Sends no request if the records contain no sessions. A failure must not prevent `status` from showing the
    /// records, so it is stored in `snapshot` too.
    pub fn read_session_states(&mut self, snapshot: &mut Snapshot, statements: bool) {
        let notes = snapshot.locks.iter().flat_map(LockRecord::notes);
        let sessions = notes.flat_map(|note| &note.sessions);
        let ids: Vec<u64> = sessions.map(|session| session.id).collect();
        if ids.is_empty() {
            return;
        }
        let packet = statements::session_states(&ids, statements);
        let outcome = self.exchange(RequestKind::Read, &packet, session_rows::visible_sessions);
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
        let mut list = self.exchange(RequestKind::Sessions, &packet, session_rows::process_list)?;
        let connection = self.connection.as_ref();
        list.own_connection = connection.and_then(Connection::tcp_connection);
        let found = look.find(&list, &mut SocketsOfMachine::default());
        Ok((found, list.instance.server))
    }

    /// Returns the next note of sessions that must end before the work under the lease of `request` starts: a note in
    /// another row, then the note in the own row. If another contender has the lease, returns the record.
    pub(super) fn next_note(
        &mut self,
        contender: &Contender,
        request: &NoteRequest,
    ) -> Result<Response, Failure> {
        let found = self.current(contender)?;
        let record = found.row.ok_or_else(rows::row_missing)?;
        let is_own = |owner_id: Option<OwnerId>| owner_id == Some(request.owner_id);
        let is_exclusive = contender.limit.is_exclusive();
        if is_exclusive && record.lease.owner_id.is_some() && !is_own(record.lease.owner_id) {
            return Ok(Response::Record(record));
        }
        if is_exclusive && !(request.of_others && record.may_have_noted_slots) {
            let own = record.sessions.map(|note| Noted {
                place: NotePlace::Own,
                text: note.to_text(),
                note: *note,
            });
            return Ok(Response::Note(own.map(Box::new)));
        }
        let select = statements::select_notes(&contender.action);
        let notes = self.exchange(RequestKind::Read, &select, rows::slot_notes)?;
        let placed = notes
            .into_iter()
            .filter_map(|(number, owner_id, note, text)| {
                let place = match number {
                    _ if is_own(owner_id) || number == 0 && is_exclusive => NotePlace::Own,
                    _ if !request.of_others => return None,
                    0 => NotePlace::Record,
                    _ if owner_id.is_some() => return None,
                    _ => NotePlace::Slot(number),
                };
                Some(Noted { place, note, text })
            });
        let (own, others): (Vec<_>, Vec<_>) = placed.partition(|it| it.place == NotePlace::Own);
        let next = others.into_iter().chain(own).next();
        Ok(Response::Note(next.map(Box::new)))
    }

    /// Removes a note of sessions that have ended.
    pub(super) fn remove_note(
        &mut self,
        contender: &Contender,
        noted: &Noted,
    ) -> Result<Response, Failure> {
        let remove = statements::remove_note(&contender.action, noted);
        self.exchange(RequestKind::Plain, &remove, rows::is_confirmed)?;
        Ok(Response::NoteRemoved)
    }

    /// Looks for the sessions that a command has left, and kills those that the request does not skip, if it says so.
    pub(super) fn end_sessions(
        &mut self,
        request: &EndSessionsRequest,
    ) -> Result<Response, Failure> {
        let noted = request.look.note.as_ref();
        if let Some(note) = noted.filter(|_| request.on_other_host) {
            return self.end_sessions_on_other_host(request, note);
        }
        let (mut found, server) = self.find_sessions(&request.look)?;
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
        let (mut killed, mut denied) = match ids.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => self.kill_sessions(&look, &ids)?,
        };
        if let Some(note) = noted.filter(|_| request.kill) {
            self.kill_hidden_sessions(note, &mut found, &mut killed, &mut denied)?;
        }
        Ok(Response::Sessions(Box::new(SessionsLeft {
            elsewhere: elsewhere.cloned(),
            found,
            killed,
            denied,
        })))
    }

    /// Ends the sessions of `note` on the server that has them, if one of the other hosts leads to it. A server that refuses
    /// writes can still end sessions. The hosts share the time limit of a request. A host that has no free connection may
    /// have the sessions, so its failure is returned.
    fn end_sessions_on_other_host(
        &mut self,
        request: &EndSessionsRequest,
        note: &SessionNote,
    ) -> Result<Response, Failure> {
        let request = EndSessionsRequest {
            on_other_host: false,
            ..request.clone()
        };
        let own = &self.target().address;
        let others = self.hosts.targets.iter();
        let mut others: Vec<Target> = others.filter(|it| it.address != *own).cloned().collect();
        // The previous look has left a connection to the right host.
        let previous = self.second.as_ref().map(|it| it.target().address.clone());
        others.sort_by_key(|it| previous.as_ref() != Some(&it.address));
        let limit = self.limit / u32::try_from(others.len()).unwrap_or(1).max(1);
        let mut full = None;
        for target in others {
            let other = self.second_to(target, limit);
            match other.find_sessions(&request.look) {
                Ok((_, server)) if server == note.instance.server => {
                    return other.end_sessions(&request);
                }
                Err(failure) if failure.kind == FailureKind::TooManyConnections => {
                    full.get_or_insert(failure);
                }
                Ok(_) | Err(_) => {}
            }
        }
        match full {
            Some(failure) => Err(failure),
            None => Ok(Response::Sessions(Box::new(SessionsLeft {
                elsewhere: Some(note.instance.server.clone()),
                found: FoundSessions {
                    note: Some(note.clone()),
                    ..FoundSessions::default()
                },
                killed: Vec::new(),
                denied: Vec::new(),
            }))),
        }
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
        let second = self.second();
        let (found, _) = second.find_sessions(look)?;
        let found = found.listed.iter().map(|listed| listed.session.id);
        let (mut killed, mut denied) = (Vec::new(), Vec::new());
        for id in found.filter(|id| ids.contains(id)) {
            // The previous KILL failed. The next step of the request looks again.
            if second.connection.is_none() {
                break;
            }
            let kill = statements::kill_session(id);
            match second.exchange(RequestKind::Sessions, &kill, rows::is_confirmed) {
                Ok(_) => killed.push(id),
                Err(failure) if failure.kind == FailureKind::Denied => denied.push(id),
                // The session has ended, or the connection is lost.
                Err(_) => {}
            }
        }
        Ok((killed, denied))
    }

    /// Kills the sessions in `note` that `found` does not contain because this account may not see them. Adds them to
    /// `found` until the server reports that they have ended.
    ///
    /// The server tells the three cases apart: it kills the session, denies the KILL, or knows no such session. After an
    /// error, the second connection is dropped, so the sessions that remain are tried in a later step.
    fn kill_hidden_sessions(
        &mut self,
        note: &SessionNote,
        found: &mut FoundSessions,
        killed: &mut Vec<u64>,
        denied: &mut Vec<u64>,
    ) -> Result<(), Failure> {
        let is_same = |a: &ServerSession, b: &ServerSession| a.id == b.id && a.client == b.client;
        let is_listed =
            |one: &ServerSession| found.listed.iter().any(|it| is_same(&it.session, one));
        let unlisted = note.sessions.iter().filter(|one| !is_listed(one));
        let ids: Vec<u64> = unlisted.clone().map(|session| session.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let second = self.second();
        let packet = statements::session_states(&ids, false);
        let visible = second.exchange(
            RequestKind::Sessions,
            &packet,
            session_rows::visible_sessions,
        )?;
        let states = SessionStates::Known(visible);
        let is_hidden =
            |one: &&ServerSession| matches!(states.of(note, one), SessionState::EndedOrHidden);
        let hidden: Vec<ServerSession> = unlisted.filter(is_hidden).cloned().collect();
        for session in hidden {
            if second.connection.is_some() {
                let kill = statements::kill_session(session.id);
                match second.exchange(RequestKind::Sessions, &kill, rows::is_confirmed) {
                    Err(failure) if failure.kind == FailureKind::NoSuchSession => continue,
                    Err(failure) if failure.kind == FailureKind::Denied => denied.push(session.id),
                    Ok(_) => killed.push(session.id),
                    Err(_) => {}
                }
            }
            let present = found.note.get_or_insert_with(|| SessionNote {
                sessions: Vec::new(),
                ..note.clone()
            });
            present.sessions.push(session.clone());
            found.listed.push(ListedSession::hidden(session));
        }
        Ok(())
    }

    /// Returns the second connection, to the server of the first one. It is not connected at first.
    fn second(&mut self) -> &mut Self {
        self.second_to(self.target().clone(), self.limit)
    }

    /// Returns the second connection, to `target`. It is not connected at first. `limit` is the maximum time of each
    /// connect, each read and each write of a new connection.
    fn second_to(&mut self, target: Target, limit: Duration) -> &mut Self {
        let idle = self.idle;
        let present = self.second.take();
        let same = present.filter(|second| second.target().address == target.address);
        let second = same.unwrap_or_else(|| Box::new(Self::new(target, limit, idle)));
        self.second.insert(second)
    }
}
