//! Keeps track of the sessions that the command has on the server, and ends them. Pure, without a clock or I/O.
//!
//! While the command runs, [`SessionTracker`] decides which sessions a renewal looks for, so that the record of the
//! lease contains them. If this process and its machine die, the contender that takes over the lease finds the sessions
//! there. After the end of a command, [`EndingSessions`] decides when no session is left, so that the next command can
//! start.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::store::session::{
    CommandConnections, FoundSessions, ListedSession, SessionLook, SessionNote, SessionPolicy,
    Untraceable,
};
use crate::store::{
    EarlierSessions, EndSessionsRequest, Failure, Request, Response, SessionsLeft, TimedResponse,
};

/// Number of additional looks for a connection that has no session yet. A client needs some time to log in. A session
/// that is still not listed belongs to an account that dlock's account may not see.
const LOGIN_LOOKS: u32 = 10;

/// Pause between the first two looks for sessions that are being ended. The pause doubles with each look. Most killed
/// statements end within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause between two looks. It delays the next command by at most this time.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Pause before a failed look is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrackingProblem {
    /// The connections with these local ports have no session that dlock's account can see.
    Unseen(Vec<u16>),
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
                let is_unseen = |port: u16| found.unseen.contains(&port);
                self.unresolved.add(&CommandConnections {
                    tcp: (open.tcp.into_iter())
                        .filter(|(port, _)| is_unseen(*port))
                        .collect(),
                    pids: open.pids,
                });
                match (found.untraceable, found.unseen) {
                    (Some(why), _) => TrackingProblem::Untraceable(why),
                    (None, unseen) if unseen.is_empty() => {
                        self.unseen_looks = 0;
                        return LookResult::Noted;
                    }
                    (None, _) if self.unseen_looks < LOGIN_LOOKS => {
                        self.unseen_looks += 1;
                        return LookResult::LookSoon;
                    }
                    (None, unseen) => TrackingProblem::Unseen(unseen),
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

/// The next step of ending the sessions.
#[derive(Debug)]
pub enum EndingStep {
    /// Send this request, then pass exactly one response to [`EndingSessions::handle_response`].
    Send(Request),
    /// Send nothing before this instant.
    Wait(BootInstant),
    /// No session is left. Contains the number of sessions that were killed.
    Finished(u32),
}

/// The sessions that a command has left on the server, until they have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndingSessions {
    /// What to look for. None until the record is read.
    look: Option<SessionLook>,
    started: BootInstant,
    next_at: BootInstant,
    pause: Duration,
    killed: BTreeSet<u64>,
    denied: BTreeSet<u64>,
    left: Vec<ListedSession>,
    elsewhere: Option<String>,
    failure: Option<Failure>,
    is_finished: bool,
}

impl EndingSessions {
    /// Creates the state for the sessions in `look`. They are killed if the policy says so.
    #[must_use]
    pub fn new(look: SessionLook, now: BootInstant) -> Self {
        Self {
            look: Some(look),
            ..Self::of_record(now)
        }
    }

    /// Creates the state for the sessions that the record contains.
    #[must_use]
    pub const fn of_record(now: BootInstant) -> Self {
        Self {
            look: None,
            started: now,
            next_at: now,
            pause: FIRST_PAUSE,
            killed: BTreeSet::new(),
            denied: BTreeSet::new(),
            left: Vec::new(),
            elsewhere: None,
            failure: None,
            is_finished: false,
        }
    }

    fn kills(&self) -> bool {
        let look = self.look.as_ref();
        look.is_some_and(|look| look.policy == SessionPolicy::Kill)
    }

    /// Returns the next step at `now`. The caller must not call this method while a request is in flight.
    #[must_use]
    pub fn next(&self, now: BootInstant) -> EndingStep {
        if self.is_finished {
            let killed = u32::try_from(self.killed.len()).unwrap_or(u32::MAX);
            return EndingStep::Finished(killed);
        }
        match now < self.next_at {
            true => EndingStep::Wait(self.next_at),
            false => EndingStep::Send(self.request(self.kills())),
        }
    }

    /// Returns a request that looks for the sessions and kills none.
    #[must_use]
    pub fn look_only(&self) -> Request {
        self.request(false)
    }

    fn request(&self, kill: bool) -> Request {
        match &self.look {
            None => Request::Get,
            Some(look) => Request::EndSessions(Box::new(EndSessionsRequest {
                look: look.clone(),
                kill,
                skip: self.killed.union(&self.denied).copied().collect(),
            })),
        }
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: TimedResponse) {
        match response.outcome {
            Ok(Response::Sessions(left)) => self.handle_list(now, *left),
            Ok(Response::Record(record)) => {
                self.failure = None;
                self.look = record.sessions.map(|note| SessionLook {
                    token: note.token,
                    policy: note.policy,
                    connections: CommandConnections::default(),
                    note: Some(note),
                });
                self.is_finished = self.look.is_none();
            }
            Ok(other) => self.failed(now, other.unexpected()),
            Err(failure) => self.failed(now, failure),
        }
    }

    fn handle_list(&mut self, now: BootInstant, left: SessionsLeft) {
        let SessionsLeft {
            found,
            killed,
            denied,
            elsewhere,
        } = left;
        self.failure = None;
        self.next_at = now + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        let kills = self.kills();
        let is_left = |listed: &&ListedSession| kills || listed.is_executing();
        self.left = found.listed.iter().filter(is_left).cloned().collect();
        self.killed.extend(killed);
        self.denied.extend(denied);
        self.is_finished = self.left.is_empty();
        self.elsewhere = elsewhere;
        // The ports of the dead processes can be used again by other programs, so only the sessions that this look has
        // found count from now on.
        if let Some(look) = &mut self.look {
            look.connections = CommandConnections::default();
            look.note = found.note;
        }
    }

    fn failed(&mut self, now: BootInstant, failure: Failure) {
        self.failure = Some(failure);
        self.next_at = now + RETRY_DELAY;
    }

    /// Returns the instant at which the first look was due.
    #[must_use]
    pub const fn started(&self) -> BootInstant {
        self.started
    }

    /// Returns what a renewal looks for, so that the record contains the sessions that the most recent look has found.
    /// None if no look has succeeded.
    #[must_use]
    pub fn renewal_look(&self) -> Option<SessionLook> {
        self.look.clone().filter(|_| self.has_looked())
    }

    /// Returns true if the record contained sessions, as far as it has been read.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.look.is_some()
    }

    /// Returns true if at least one look has succeeded.
    #[must_use]
    pub fn has_looked(&self) -> bool {
        self.pause > FIRST_PAUSE
    }

    /// Returns the sessions that the most recent look has found.
    #[must_use]
    pub fn left(&self) -> &[ListedSession] {
        &self.left
    }

    /// Returns the ids of the sessions that dlock's account may not kill.
    #[must_use]
    pub const fn denied(&self) -> &BTreeSet<u64> {
        &self.denied
    }

    /// Returns the server that has the sessions, if dlock is connected to a different server.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.as_deref()
    }

    /// Returns the most recent failure. None if the most recent look succeeded.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Removes history that does not affect the next steps from `now` on. The protocol model calls this method to
    /// recognise a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        let past = BootInstant::new(Duration::ZERO);
        self.started = past;
        if self.next_at <= now {
            self.next_at = past;
        }
        if self.has_looked() {
            self.pause = LONGEST_PAUSE;
        }
        self.left.clear();
        self.failure = None;
    }
}

#[cfg(test)]
mod tests;
