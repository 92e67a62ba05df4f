//! Ends the sessions that a command has left on the server. Pure, without a clock or I/O.
//!
//! After the end of a command, [`EndingSessions`] decides when no session is left, so that the next command can start. The
//! holder ends the sessions of its own command, and the next holder those of a dead holder.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::store::session::{CommandConnections, ListedSession, SessionLook, SessionPolicy};
use crate::store::{
    EndSessionsRequest, Failure, NotePlace, NoteRequest, Noted, Request, Response, SessionsLeft,
    TimedResponse,
};
use crate::sys::tcp::TcpSocket;

/// Pause between the first two looks for sessions that are being ended. The pause doubles with each look. Most killed
/// statements end within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause between two looks. It delays the next command by at most this time.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause between two looks for the sessions of ended connections that other programs may have replaced.
const LONGEST_CLOSE: Duration = Duration::from_millis(50);

/// Pause before a failed look is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

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

/// When and where the next look takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NextLook {
    at: BootInstant,
    /// True if it uses a connection to another host, because the noted sessions are not on the server of the lease.
    on_other_host: bool,
}

impl NextLook {
    const fn at(at: BootInstant) -> Self {
        Self {
            at,
            on_other_host: false,
        }
    }
}

/// The sessions that a command has left on the server, until they have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndingSessions {
    /// What to look for. None before a note is read.
    look: Option<SessionLook>,
    /// The notes to read.
    notes: Notes,
    started: BootInstant,
    next: NextLook,
    pause: Duration,
    /// Number of sessions that were killed because of earlier notes.
    killed_before: usize,
    killed: BTreeSet<u64>,
    denied: BTreeSet<u64>,
    left: Vec<ListedSession>,
    elsewhere: Option<String>,
    /// Ports of the dead command's connections that another program may use now, as the looks found.
    unproven: Vec<u16>,
    failure: Option<Failure>,
    /// True if one look is enough, which kills no session.
    is_single_look: bool,
    is_finished: bool,
}

/// The notes of sessions that have to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Notes {
    /// None. The sessions are known.
    None,
    /// The next note is to be read, or the note in the own row has been read.
    Read(NoteRequest),
    /// The sessions of this note in another row are looked for.
    Other(NoteRequest, Box<Noted>),
    /// The sessions of this note in another row have ended, so it is to be removed.
    Remove(NoteRequest, Box<Noted>),
}

impl EndingSessions {
    /// Creates the state for the sessions in `look`. They are killed if the policy says so.
    #[must_use]
    pub fn new(look: SessionLook, now: BootInstant) -> Self {
        Self {
            look: Some(look),
            ..Self::with(Notes::None, now)
        }
    }

    /// Creates the state for one look for the sessions in `look`. None is killed.
    #[must_use]
    pub fn single_look(look: SessionLook, now: BootInstant) -> Self {
        Self {
            is_single_look: true,
            ..Self::new(look, now)
        }
    }

    /// Creates the state for the sessions in the notes that `request` reads.
    #[must_use]
    pub const fn noted(request: NoteRequest, now: BootInstant) -> Self {
        Self::with(Notes::Read(request), now)
    }

    const fn with(notes: Notes, now: BootInstant) -> Self {
        Self {
            look: None,
            notes,
            started: now,
            next: NextLook::at(now),
            pause: FIRST_PAUSE,
            killed_before: 0,
            killed: BTreeSet::new(),
            denied: BTreeSet::new(),
            left: Vec::new(),
            elsewhere: None,
            unproven: Vec::new(),
            failure: None,
            is_single_look: false,
            is_finished: false,
        }
    }

    fn kills(&self) -> bool {
        let look = self.look.as_ref();
        !self.is_single_look && look.is_some_and(|look| look.policy == SessionPolicy::Kill)
    }

    /// Returns the next step at `now`. The caller must not call this method while a request is in flight.
    #[must_use]
    pub fn next(&self, now: BootInstant) -> EndingStep {
        if self.is_finished {
            let killed = self.killed_before + self.killed.len();
            let killed = u32::try_from(killed).unwrap_or(u32::MAX);
            return EndingStep::Finished(killed);
        }
        match now < self.next.at {
            true => EndingStep::Wait(self.next.at),
            false => EndingStep::Send(self.request()),
        }
    }

    fn request(&self) -> Request {
        match (&self.notes, &self.look) {
            (Notes::Remove(_, noted), _) => Request::RemoveNote(noted.clone()),
            (Notes::Read(request) | Notes::Other(request, _), None) => Request::GetNote(*request),
            (Notes::None, None) => Request::Get,
            (_, Some(look)) => Request::EndSessions(Box::new(EndSessionsRequest {
                look: SessionLook {
                    // The connections lead to the server of the lease.
                    connections: match self.next.on_other_host {
                        true => CommandConnections::default(),
                        false => look.connections.clone(),
                    },
                    ..look.clone()
                },
                on_other_host: self.next.on_other_host,
                kill: self.kills(),
                skip: self.killed.union(&self.denied).copied().collect(),
            })),
        }
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: TimedResponse) {
        match response.outcome {
            Ok(Response::Sessions(left)) => self.handle_list(now, *left),
            Ok(Response::Note(noted)) => {
                self.failure = None;
                self.is_finished = noted.is_none();
                if let Some(noted) = noted {
                    self.begin(*noted);
                }
            }
            Ok(Response::NoteRemoved) => {
                self.failure = None;
                if let Notes::Remove(request, _) = self.notes {
                    self.killed_before += self.killed.len();
                    (self.killed, self.denied) = (BTreeSet::new(), BTreeSet::new());
                    (self.look, self.notes) = (None, Notes::Read(request));
                }
            }
            Ok(other) => self.failed(now, other.unexpected()),
            Err(failure) => self.failed(now, failure),
        }
    }

    /// Begins to look for the sessions of a note.
    fn begin(&mut self, noted: Noted) {
        let note = noted.note.clone();
        self.look = Some(SessionLook {
            token: note.token,
            policy: note.policy,
            connections: CommandConnections::default(),
            note: Some(note),
        });
        self.pause = FIRST_PAUSE;
        if let (Notes::Read(request), NotePlace::Record | NotePlace::Slot(_)) =
            (&self.notes, noted.place)
        {
            self.notes = Notes::Other(*request, Box::new(noted));
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
        // One look consists of a request to the server of the lease and, if it has none of the noted sessions, one to the
        // server that had them.
        if elsewhere.is_some() && found.listed.is_empty() && !self.next.on_other_host {
            self.next = NextLook {
                at: now,
                on_other_host: true,
            };
            return;
        }
        self.next = NextLook::at(now + self.pause);
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        let kills = self.kills();
        let is_left = |listed: &&ListedSession| kills || listed.is_executing();
        self.left = found.listed.iter().filter(is_left).cloned().collect();
        self.killed.extend(killed);
        self.denied.extend(denied);
        // A server lists the session of a closed connection for a moment.
        let is_settled = found.unproven.is_empty() || self.pause > LONGEST_CLOSE;
        let has_ended = self.is_single_look || self.left.is_empty() && is_settled;
        match &self.notes {
            Notes::Other(request, noted) if has_ended => {
                self.notes = Notes::Remove(*request, noted.clone());
                self.next.at = now;
            }
            _ => self.is_finished = has_ended,
        }
        self.elsewhere = elsewhere;
        if let Some(look) = &mut self.look {
            let is_unproven = |socket: &TcpSocket| found.unproven.contains(&socket.port());
            look.connections.pids.clear();
            look.connections.tcp.retain(is_unproven);
            look.note = found.note;
            if is_settled {
                look.connections.tcp.clear();
                self.unproven.extend(found.unproven);
            }
        }
    }

    fn failed(&mut self, now: BootInstant, failure: Failure) {
        self.failure = Some(failure);
        self.next = NextLook::at(now + RETRY_DELAY);
    }

    /// Returns the instant at which the first look was due.
    #[must_use]
    pub const fn started(&self) -> BootInstant {
        self.started
    }

    /// Returns what a renewal looks for, so that the row of the lease contains the sessions that the most recent look has
    /// found. None if no look has succeeded, or if the sessions are noted in another row.
    #[must_use]
    pub fn renewal_look(&self) -> Option<SessionLook> {
        let is_own = matches!(self.notes, Notes::None | Notes::Read(_));
        self.look.clone().filter(|_| is_own && self.has_looked())
    }

    /// Returns true if there were sessions, as far as the notes have been read.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.look.is_some() || self.killed_before > 0
    }

    /// Returns true if one look is enough.
    #[must_use]
    pub const fn is_single_look(&self) -> bool {
        self.is_single_look
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

    /// Returns the ports of the dead command's connections whose sessions are not ended, because another program may use
    /// these ports now.
    #[must_use]
    pub fn unproven(&self) -> &[u16] {
        &self.unproven
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
        if self.next.at <= now {
            self.next.at = past;
        }
        if self.has_looked() {
            self.pause = LONGEST_PAUSE;
        }
        self.left.clear();
        self.unproven.clear();
        self.failure = None;
    }
}
