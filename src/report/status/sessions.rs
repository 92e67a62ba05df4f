//! Formats the sessions of commands on the server, as facts and as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::report::format::millis;
use crate::report::messages::duration;
use crate::store::LockRecord;
use crate::store::session::{ListedSession, ServerSession, SessionNote};
use crate::store::session_states::{SessionState, SessionStates};

/// A session in the JSON document.
#[derive(Serialize)]
pub(super) struct SessionJson<'a> {
    id: u64,
    account: &'a str,
    client: &'a str,
    server: &'a str,
    token: u64,
    listed: Option<bool>,
    command: Option<&'a str>,
    state: Option<&'a str>,
    for_ms: Option<u64>,
    statement: Option<&'a str>,
}

/// Returns the facts about the sessions in `record`: one for each session, each followed by its statement if the
/// statement is known. The values contain text from other clients, so the caller must escape the values.
pub(super) fn session_facts(
    record: &LockRecord,
    states: &SessionStates,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for (note, session) in noted(record) {
        let state = states.of(note, session);
        let ServerSession {
            id,
            account,
            client,
        } = session;
        let what = description(state, note);
        facts.push(("session", format!("{id} of {account} from {client}{what}")));
        if let SessionState::Listed(visible) = state
            && let Some(statement) = &visible.statement
        {
            facts.push(("statement", statement.clone()));
        }
    }
    facts
}

/// Describes the state of a session, or its server if the state is unknown.
fn description(state: SessionState<'_>, note: &SessionNote) -> String {
    let server = &note.instance.server;
    match state {
        SessionState::Listed(visible) => format!(": {}", activity(&visible.listed)),
        SessionState::Ended => ": ended".to_owned(),
        SessionState::EndedByRestart => ": ended, because the server has restarted".to_owned(),
        SessionState::EndedOrHidden => {
            ": ended, or not visible without the privilege PROCESS".to_owned()
        }
        SessionState::OnOtherServer => format!(
            " on server {server}: not checked, because dlock is connected to another server"
        ),
        SessionState::NoProcessList => {
            ": state unknown, because the server lists no sessions".to_owned()
        }
        SessionState::Failed(failure) => format!(": state unknown: {failure}"),
        SessionState::NotQueried => format!(" on server {server}"),
    }
}

/// Describes what a session does, and for how long.
fn activity(listed: &ListedSession) -> String {
    let ListedSession {
        command,
        state,
        seconds,
        ..
    } = listed;
    let time = duration(Duration::from_secs(*seconds));
    match state.as_str() {
        "" => format!("{command} for {time}"),
        state => format!("{command} ({state}) for {time}"),
    }
}

/// Returns the sessions in `record` for JSON.
pub(super) fn sessions<'a>(
    record: &'a LockRecord,
    states: &'a SessionStates,
) -> Vec<SessionJson<'a>> {
    let json = |(note, session): (&'a SessionNote, &'a ServerSession)| {
        let state = states.of(note, session);
        let visible = match state {
            SessionState::Listed(visible) => Some(visible),
            _ => None,
        };
        let listed = visible.map(|visible| &visible.listed);
        SessionJson {
            id: session.id,
            account: &session.account,
            client: &session.client,
            server: &note.instance.server,
            token: note.token.0,
            listed: match state {
                SessionState::Listed(_) => Some(true),
                SessionState::Ended | SessionState::EndedByRestart => Some(false),
                SessionState::NotQueried
                | SessionState::Failed(_)
                | SessionState::EndedOrHidden
                | SessionState::OnOtherServer
                | SessionState::NoProcessList => None,
            },
            command: listed.map(|listed| listed.command.as_str()),
            state: listed.map(|listed| listed.state.as_str()),
            for_ms: listed.map(|listed| millis(Duration::from_secs(listed.seconds))),
            statement: visible.and_then(|visible| visible.statement.as_deref()),
        }
    };
    noted(record).map(json).collect()
}

/// Returns the noted sessions in `record`, each with its note.
fn noted(record: &LockRecord) -> impl Iterator<Item = (&SessionNote, &ServerSession)> {
    record
        .notes()
        .flat_map(|note| note.sessions.iter().map(move |session| (note, session)))
}
