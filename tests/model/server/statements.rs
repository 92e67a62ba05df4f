//! The statements that commands execute on the model's server, and the note of their sessions in the row.

use std::collections::BTreeSet;

use dlock::lease::Token;
use dlock::store::session::{
    CommandConnections, ListedSession, ProcessList, ServerInstance, ServerSession, SessionNote,
    SessionPolicy, SocketCheck,
};
use dlock::store::{
    EndSessionsRequest, NotePlace, NoteRequest, Noted, QueueLockOwner, RenewRequest,
};
use dlock::sys::tcp::{TcpConnection, TcpSocket};

use super::{NUMBER_BYTE, Raw, SHARED, Server, Session, Stage};

const SERVER_PORT: u16 = 3306;

/// Maximum number of statements of each client between two restarts of the server.
const STATEMENTS: u8 = 4;

/// A statement that a command has started. It continues when the command and its dlock process die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Statement {
    /// Id of the session that executes the statement.
    pub(crate) id: u8,
    /// Token of the lease under which the command ran.
    pub(crate) token: u8,
    /// True if the session is killed. It then ends at the end of the current tick.
    pub(crate) is_killed: bool,
    /// True if the row has contained the session in its note. A command must not start while such a statement of an
    /// earlier run is executed.
    pub(crate) was_noted: bool,
    /// True if the success of the command is recorded, so that the statement may continue.
    pub(crate) is_left: bool,
}

impl Statement {
    /// Returns the number of the client whose command has started the statement.
    pub(crate) fn client(self) -> usize {
        usize::from(self.id / STATEMENTS)
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionIds(u8);

/// The process list of the server, as a request of `client` has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Listed {
    client: usize,
    /// Number of restarts of the server before.
    restarts: u8,
    sessions: SessionIds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    restarts: u8,
    pub(crate) token: u8,
    policy: SessionPolicy,
    sessions: SessionIds,
}

impl SessionIds {
    pub(crate) const EMPTY: Self = Self(0);

    fn contains(self, id: u8) -> bool {
        self.0 & (1 << id) != 0
    }

    fn ids(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |id| self.contains(*id))
    }

    /// Returns the connections of a command with these sessions.
    pub(crate) fn connections(self) -> CommandConnections {
        CommandConnections {
            tcp: self.ids().map(socket).collect(),
            pids: BTreeSet::new(),
        }
    }

    /// Returns the ids as they are in requests and responses.
    pub(crate) fn to_vec(self) -> Vec<u64> {
        self.ids().map(u64::from).collect()
    }
}

impl FromIterator<u8> for SessionIds {
    fn from_iter<I: IntoIterator<Item = u8>>(ids: I) -> Self {
        Self(ids.into_iter().fold(0, |set, id| set | 1 << id))
    }
}

impl Listed {
    pub(crate) fn process_list(self) -> ProcessList {
        ProcessList {
            instance: instance(self.restarts),
            port: SERVER_PORT,
            own_client: Some(format!("{}:1", host(self.client))),
            own_connection: None,
            sessions: self
                .sessions
                .ids()
                .map(|id| ListedSession {
                    session: server_session(id),
                    command: "Query".to_owned(),
                    state: String::new(),
                    seconds: 0,
                    pid: None,
                })
                .collect(),
        }
    }
}

impl Note {
    fn new(note: &SessionNote) -> Self {
        let number = |id: u64| u8::try_from(id).expect("few sessions");
        Self {
            restarts: u8::try_from(note.instance.started).expect("few restarts"),
            token: u8::try_from(note.token.0).expect("few grants"),
            policy: note.policy,
            sessions: note.sessions.iter().map(|one| number(one.id)).collect(),
        }
    }

    pub(crate) fn session_note(self) -> SessionNote {
        SessionNote {
            instance: instance(self.restarts),
            token: Token(self.token.into()),
            policy: self.policy,
            sessions: self.sessions.ids().map(server_session).collect(),
        }
    }
}

impl Server {
    /// Starts a statement of the command that `client` executes under `token`.
    pub(crate) fn start_statement(&mut self, client: usize, token: u8) {
        let first = u8::try_from(client).expect("two clients") * STATEMENTS;
        self.statements.push(Statement {
            id: first + self.statement_count,
            token,
            is_killed: false,
            was_noted: false,
            is_left: false,
        });
        // The server uses each id only once between two restarts.
        self.statement_count += 1;
    }

    /// Returns a note of the sessions of all statements, for a run under `token`.
    #[allow(dead_code, reason = "only the comparison uses it")]
    pub(crate) fn note_of_all(&self, token: Token) -> SessionNote {
        let sessions = self.statements.iter().map(|one| one.id);
        SessionNote {
            instance: instance(self.restarts),
            token,
            policy: SessionPolicy::Kill,
            sessions: sessions.map(server_session).collect(),
        }
    }

    pub(crate) fn end_killed_statements(&mut self) {
        self.statements.retain(|statement| !statement.is_killed);
    }

    /// Records that the command with `token` has succeeded, so that its statements may continue.
    pub(super) fn leave_statements(&mut self, token: u8) {
        for statement in &mut self.statements {
            statement.is_left |= statement.token == token;
        }
    }

    /// Removes the statements that no longer matter: those that were never noted, and those that a successful command has
    /// left unless `keeps_left` is set, if none of `tokens` is the token of their run.
    pub(crate) fn forget_statements(&mut self, tokens: &[u8], keeps_left: bool) {
        self.statements.retain(|statement| {
            let matters = statement.was_noted && (keeps_left || !statement.is_left);
            matters || tokens.contains(&statement.token)
        });
    }

    /// Returns the sessions of the command that ran under `token`.
    pub(crate) fn sessions_of(&self, token: Option<u8>) -> SessionIds {
        let statements = self.statements.iter();
        let of_token = statements.filter(|statement| Some(statement.token) == token);
        of_token.map(|statement| statement.id).collect()
    }

    /// Returns the process list that a renewal has to read before the packet that renews. None if the renewal looks for
    /// no sessions.
    pub(super) fn list_for(
        &self,
        session: Session,
        request: &RenewRequest,
        stage: Stage,
    ) -> Option<Raw> {
        let look = request.look.as_ref()?;
        let is_needed = stage == Stage::First && !look.is_empty();
        is_needed.then(|| Raw::Listed(self.listed(session)))
    }

    /// Writes the found sessions into the row, like the UPDATE of a renewal. Changes nothing if the renewal looks for no
    /// sessions.
    pub(super) fn note(&mut self, request: &RenewRequest, stage: Stage) {
        let Some(look) = &request.look else {
            return;
        };
        let found = match stage {
            Stage::Note(listed) => look.find(&listed.process_list(), &mut OwnSockets).note,
            _ => None,
        };
        let owner_id = request.grant.owner_id.bytes()[NUMBER_BYTE];
        let found = found.as_ref().map(Note::new);
        if let Some(row) = self.lease_of_mut(owner_id) {
            row.note = found;
            row.may_have_noted_slots = false;
        }
        if let Some(note) = found
            && note.restarts == self.restarts
        {
            for statement in &mut self.statements {
                statement.was_noted |= note.sessions.contains(statement.id);
            }
        }
    }

    /// Reads the next note of sessions that must end, or the row if another contender has the lease.
    pub(super) fn next_note(&self, clock: i8, request: &NoteRequest) -> Raw {
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let is_exclusive = self.limit_of(owner_id).is_exclusive();
        if is_exclusive && self.row.owner_id.is_some_and(|other| other != owner_id) {
            let view = self.view_of_row(clock, QueueLockOwner::NotQueried, 0);
            return Raw::Row(view, false);
        }
        let own = self.lease_of(owner_id).and_then(|row| row.note);
        let in_record = (self.row.note).filter(|_| !is_exclusive && request.of_others);
        let slots = self.slots.iter().zip(1..);
        let reads_slots = request.of_others && (!is_exclusive || self.row.may_have_noted_slots);
        let free = slots.filter(|(slot, _)| reads_slots && slot.row.owner_id.is_none());
        let others = free
            .filter_map(|(slot, number)| slot.row.note.map(|note| (NotePlace::Slot(number), note)));
        let in_record = in_record.map(|note| (NotePlace::Record, note));
        let own = own.map(|note| (NotePlace::Own, note));
        let mut all = in_record.into_iter().chain(others).chain(own);
        Raw::Note(all.next())
    }

    /// Removes a note in a row that nobody holds.
    pub(super) fn remove_note(&mut self, noted: &Noted) -> Raw {
        let row = match noted.place {
            NotePlace::Own => None,
            NotePlace::Record => Some(&mut self.row).filter(|row| row.owner_id == Some(SHARED)),
            NotePlace::Slot(number) => {
                let index = usize::try_from(number - 1).expect("few slots");
                let slot = self.slots.get_mut(index).map(|slot| &mut slot.row);
                slot.filter(|row| row.owner_id.is_none())
            }
        };
        if let Some(row) = row
            && row.note == Some(Note::new(&noted.note))
        {
            row.note = None;
            row.may_have_noted_slots = false;
        }
        Raw::NoteRemoved
    }

    /// Looks for sessions and kills them, if the request says so. The kills take effect at the end of the tick.
    pub(super) fn end_sessions(&mut self, session: Session, request: &EndSessionsRequest) -> Raw {
        let listed = self.listed(session);
        let found = request.look.find(&listed.process_list(), &mut OwnSockets);
        let ids = found.listed.iter().map(|one| one.session.id);
        let killed: SessionIds = ids
            .filter(|id| request.kill && !request.skip.contains(id))
            .map(|id| u8::try_from(id).expect("few sessions"))
            .collect();
        for statement in &mut self.statements {
            statement.is_killed |= killed.contains(statement.id);
        }
        Raw::Sessions(listed, killed)
    }

    fn listed(&self, session: Session) -> Listed {
        Listed {
            client: session.client,
            restarts: self.restarts,
            sessions: self.statements.iter().map(|one| one.id).collect(),
        }
    }
}

/// The sockets of the commands. Each client has its own machine, and each port belongs to one session for ever, so no other
/// program can have it.
#[derive(Debug)]
pub(crate) struct OwnSockets;

impl SocketCheck for OwnSockets {
    fn is_open(&mut self, _: &TcpSocket) -> bool {
        true
    }

    fn belongs_to_command(&mut self, _: &TcpSocket, _: bool) -> bool {
        true
    }
}

fn socket(id: u8) -> TcpSocket {
    let address = |text: String| text.parse().expect("an address");
    TcpSocket {
        connection: TcpConnection {
            local: address(format!(
                "{}:{}",
                host(usize::from(id / STATEMENTS)),
                port(id)
            )),
            remote: address(format!("192.0.2.99:{SERVER_PORT}")),
        },
        inode: id.into(),
        file: (id.into(), 3),
    }
}

/// Returns the address of a client. Each client has its own machine, so a port identifies a session only together with
/// the client.
fn host(client: usize) -> String {
    format!("192.0.2.{client}")
}

fn port(id: u8) -> u16 {
    1000 + u16::from(id)
}

fn server_session(id: u8) -> ServerSession {
    ServerSession {
        id: id.into(),
        account: "app".to_owned(),
        client: format!("{}:{}", host(usize::from(id / STATEMENTS)), port(id)),
    }
}

fn instance(restarts: u8) -> ServerInstance {
    ServerInstance {
        server: "server".to_owned(),
        started: restarts.into(),
    }
}
