//! The present states of the sessions that records contain, as `status` shows them. Pure.

use super::failure::Failure;
use super::session::{ListedSession, ServerInstance, ServerSession, SessionNote};

/// Maximum number of characters of a statement that `status` shows.
pub const STATEMENT_LENGTH: usize = 80;

/// What `status` knows about the states of the noted sessions.
#[derive(Debug, Clone)]
pub enum SessionStates {
    /// The states were not requested.
    NotQueried,
    /// The states cannot be read because of this failure.
    Failed(Failure),
    /// The server has returned the noted sessions that this account can see.
    Known(VisibleSessions),
}

/// The noted sessions that this account can see in the process list of the server.
#[derive(Debug, Clone)]
pub struct VisibleSessions {
    /// The server.
    pub instance: ServerInstance,
    /// Name of the account that has read the list. None if the list does not contain the session that has read it, so
    /// that the list cannot be used.
    pub own_account: Option<String>,
    /// True if this account certainly sees the sessions of all accounts.
    pub sees_all: bool,
    /// The sessions.
    pub sessions: Vec<VisibleSession>,
}

/// A noted session that this account can see.
#[derive(Debug, Clone)]
pub struct VisibleSession {
    /// The session.
    pub listed: ListedSession,
    /// The first [`STATEMENT_LENGTH`] characters of the statement that the session executes. None if it executes no
    /// statement, or if statements were not requested.
    pub statement: Option<String>,
}

/// The state of one noted session.
#[derive(Debug, Clone, Copy)]
pub enum SessionState<'a> {
    /// The state was not requested.
    NotQueried,
    /// The state cannot be read because of this failure.
    Failed(&'a Failure),
    /// The server lists the session.
    Listed(&'a VisibleSession),
    /// The server no longer lists the session.
    Ended,
    /// The server has restarted since the session was noted, which has ended the session.
    EndedByRestart,
    /// The server does not list the session to this account. Either the session has ended, or the account may not see
    /// it.
    EndedOrHidden,
    /// The session is on another server, which this request did not ask.
    OnOtherServer,
    /// The server lists no session at all, not even the session that has read the list.
    NoProcessList,
}

impl SessionStates {
    /// Returns the state of `session`, which is one of the sessions in `note`.
    #[must_use]
    pub fn of(&self, note: &SessionNote, session: &ServerSession) -> SessionState<'_> {
        match self {
            Self::NotQueried => SessionState::NotQueried,
            Self::Failed(failure) => SessionState::Failed(failure),
            Self::Known(visible) => visible.state_of(note, session),
        }
    }
}

impl VisibleSessions {
    /// Every account sees the sessions of its own name.
    fn state_of(&self, note: &SessionNote, session: &ServerSession) -> SessionState<'_> {
        if self.instance.server != note.instance.server {
            return SessionState::OnOtherServer;
        }
        if self.instance.started != note.instance.started {
            return SessionState::EndedByRestart;
        }
        let is_same = |one: &&VisibleSession| {
            let listed = &one.listed.session;
            listed.id == session.id && listed.client == session.client
        };
        match (self.sessions.iter().find(is_same), &self.own_account) {
            (Some(visible), _) => SessionState::Listed(visible),
            (None, None) => SessionState::NoProcessList,
            (None, Some(own)) if self.sees_all || *own == session.account => SessionState::Ended,
            (None, Some(_)) => SessionState::EndedOrHidden,
        }
    }
}
