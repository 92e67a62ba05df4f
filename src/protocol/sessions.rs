//! Keeps track of the sessions that the command has on the server. Pure, without a clock or I/O.
//!
//! While the command runs, [`SessionTracker`] decides which sessions a renewal looks for, so that the record of the
//! lease contains them. If this process and its machine die, the contender that takes over the lease finds the sessions
//! there, and ends them as [`session_end`](super::session_end) describes.

use crate::lease::Token;
use crate::store::session::{
    CommandConnections, FoundSessions, SessionLook, SessionNote, SessionPolicy, Untraceable,
};
use crate::store::{EarlierSessions, Failure};
use crate::sys::tcp::TcpSocket;

/// Number of additional looks for a connection that has no session yet. A client needs some time to log in. A session
/// that is still not listed belongs to an account that dlock's account may not see.
const LOGIN_LOOKS: u32 = 10;

/// The sessions of one command while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionTracker {
    token: Token,
    policy: SessionPolicy,
    /// The present connections of the command.
    current: CommandConnections,
    /// Connections that may have ended, and whose sessions have not been found yet. A connection stays here until a look
    /// that was sent after the end of the connection.
    unresolved: CommandConnections,
    /// Connections of the look in flight.
    in_flight: CommandConnections,
    /// The connections in [`in_flight`](Self::in_flight) that had not ended when the look was sent.
    open_in_flight: CommandConnections,
    /// The sessions that the most recent look found.
    note: Option<SessionNote>,
    /// True if there is a connection that no look has asked for yet.
    has_new: bool,
    /// True if the record may contain sessions.
    is_recorded: bool,
    /// Number of consecutive looks that found no session for a connection.
    unseen_looks: u32,
    /// True if a problem that persists has been reported.
    has_reported: bool,
    /// Number of consecutive failed looks.
    failures: u32,
}

/// What the result of a look means for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookResult {
    /// The sessions are noted.
    Noted,
    /// A client has not logged in yet, so the next look must follow soon.
    LookSoon,
    /// Some sessions of the command cannot be found. A failure is returned once for each series of failures, and other
    /// problems at most once.
    Incomplete(TrackingProblem),
}

/// Reason why sessions of the command are not noted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TrackingProblem {
    /// The connections with these local ports have no session that dlock's account can see.
    Unseen(Vec<u16>),
    /// The connections with these local ports may have been replaced by connections of other programs.
    Unproven(Vec<u16>),
    /// No session can be found.
    Untraceable(Untraceable),
    /// The process list cannot be read.
    Failed(Failure),
}

impl SessionTracker {
    /// Creates the tracker of a command that starts under the lease with `token`. `earlier` says whether the record
    /// still contains the sessions of an earlier holder, which have ended.
    #[must_use]
    pub fn new(token: Token, policy: SessionPolicy, earlier: EarlierSessions) -> Self {
        Self {
            token,
            policy,
            current: CommandConnections::default(),
            unresolved: CommandConnections::default(),
            in_flight: CommandConnections::default(),
            open_in_flight: CommandConnections::default(),
            note: None,
            has_new: false,
            is_recorded: earlier == EarlierSessions::Noted,
            unseen_looks: 0,
            has_reported: false,
            failures: 0,
        }
    }

    /// Updates the connections of the command.
    pub fn update(&mut self, connections: CommandConnections) {
        let new = connections.without(&self.current);
        if !new.is_empty() {
            self.has_new = true;
            self.unseen_looks = 0;
        }
        self.unresolved.add(&new);
        self.current = connections;
    }

    /// Returns true if the next renewal should follow soon, because no look has asked for a connection yet.
    #[must_use]
    pub fn is_look_due(&self) -> bool {
        self.has_new && self.policy != SessionPolicy::Ignore
    }

    /// Returns what the next renewal looks for. None if the command has no connection, and the record contains no
    /// sessions.
    pub fn look(&mut self) -> Option<SessionLook> {
        if self.policy == SessionPolicy::Ignore {
            return None;
        }
        let look = self.latest_look();
        (!look.is_empty() || self.is_recorded).then(|| {
            self.in_flight = look.connections.clone();
            self.open_in_flight = self.current.clone();
            self.has_new = false;
            // The renewal may note the sessions even if its response is lost, or arrives after the end of the command.
            self.is_recorded |= !look.is_empty();
            self.unresolved = CommandConnections::default();
            look
        })
    }

    fn latest_look(&self) -> SessionLook {
        let mut connections = self.current.clone();
        connections.add(&self.unresolved);
        SessionLook {
            token: self.token,
            policy: self.policy,
            connections,
            note: self.note.clone(),
        }
    }

    /// Handles the result of a look. None if the renewal did not look, or failed.
    pub fn looked(&mut self, result: Option<Result<FoundSessions, Failure>>) -> LookResult {
        let in_flight = std::mem::take(&mut self.in_flight);
        let open = std::mem::take(&mut self.open_in_flight);
        let problem = match result {
            None => {
                self.unresolved.add(&in_flight);
                return LookResult::Noted;
            }
            Some(Err(failure)) => {
                self.unresolved.add(&in_flight);
                self.failures += 1;
                return match self.failures {
                    1 => LookResult::Incomplete(TrackingProblem::Failed(failure)),
                    _ => LookResult::Noted,
                };
            }
            Some(Ok(found)) => {
                self.failures = 0;
                self.is_recorded = found.note.is_some();
                self.note = found.note;
                // The client of a connection without a session may log in later.
                let is_unseen = |socket: &TcpSocket| found.unseen.contains(&socket.port());
                // The session of an ended connection may still be listed for a moment.
                let is_unproven = |socket: &TcpSocket| found.unproven.contains(&socket.port());
                let unseen = open.tcp.into_iter().filter(is_unseen);
                let unproven = in_flight.tcp.into_iter().filter(is_unproven);
                self.unresolved.add(&CommandConnections {
                    tcp: unseen.chain(unproven).collect(),
                    pids: open.pids,
                });
                let (unseen, unproven) = (found.unseen, found.unproven);
                match found.untraceable {
                    Some(why) => TrackingProblem::Untraceable(why),
                    None if unseen.is_empty() && unproven.is_empty() => {
                        self.unseen_looks = 0;
                        return LookResult::Noted;
                    }
                    None if self.unseen_looks < LOGIN_LOOKS => {
                        self.unseen_looks += 1;
                        return LookResult::LookSoon;
                    }
                    None if unseen.is_empty() => TrackingProblem::Unproven(unproven),
                    None => TrackingProblem::Unseen(unseen),
                }
            }
        };
        match std::mem::replace(&mut self.has_reported, true) {
            false => LookResult::Incomplete(problem),
            true => LookResult::Noted,
        }
    }

    /// Returns true if the record may contain sessions.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Returns true if the release must remove the sessions from the record when none is left. A command whose sessions
    /// are ignored leaves the sessions of an earlier holder in the record.
    #[must_use]
    pub fn clears_record(&self) -> bool {
        self.is_recorded && self.policy != SessionPolicy::Ignore
    }

    /// Returns what to look for after the end of the command. None if the command had no session.
    #[must_use]
    pub fn left(&self) -> Option<SessionLook> {
        let mut look = self.latest_look();
        look.connections.add(&self.in_flight);
        Some(look).filter(|look| !look.is_empty() && self.policy != SessionPolicy::Ignore)
    }
}

#[cfg(test)]
mod tests;
