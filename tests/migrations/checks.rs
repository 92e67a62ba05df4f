//! Finds the failures of a round, from the sessions at the next start and the exit status of all replicas.
//!
//! These checks start no process, read no clock, and do not trust the messages of dlock.

use std::time::Duration;

use strum::Display;

/// Maximum time from a kill to the end of a short statement that nobody could have stopped, for example CREATE TABLE. No
/// lock can undo a statement that commits before its client records it. The ALTER of a tool never ends this early,
/// because it cannot commit before the next start.
pub(crate) const WINDOW: Duration = Duration::from_millis(250);

/// Promised maximum time from the end of the ttl to the next start, if the server stops the statement immediately.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Promised maximum time from the death of dlock alone to the next start, if the server stops the statement immediately.
const AFTER_PARENT: Duration = Duration::from_millis(500);

/// Which processes of the holder are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum KillKind {
    /// The processes of the command that are connected to the server. If there are none, all processes of the command.
    Client,
    /// dlock's parent process. The monitor then kills the command, and releases the lease.
    Parent,
    /// All processes of the holder at once, as if its machine had died.
    All,
}

impl KillKind {
    pub(crate) const EACH: [Self; 3] = [Self::Client, Self::Parent, Self::All];

    /// Returns the promised time from the kill to the next start, if the server stops the statement immediately.
    pub(crate) fn allowed(self, ttl: Duration) -> Duration {
        match self {
            Self::Parent => AFTER_PARENT,
            Self::Client | Self::All => ttl + MAX_DELAY,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NextStart {
    pub(crate) replica: usize,
    pub(crate) after: Duration,
    /// Sessions of the killed command that run a statement or have a transaction. An idle session is no failure.
    pub(crate) active: Vec<String>,
    /// Time from the kill to the last observation of a statement of the killed command. None if no statement was
    /// observed after the kill.
    pub(crate) last_active: Option<Duration>,
    /// Longest time from the end of the last statement, or from its KILL, to the end of the session. It includes the
    /// rollback. None if no session was observed in this state.
    pub(crate) stop: Option<Duration>,
    /// An effect of a migration that is committed but not recorded. None if there is no such effect, or if a statement
    /// still runs.
    pub(crate) half_done: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Killed,
    Restarted,
    Survivor,
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) fate: Fate,
    pub(crate) status: Option<i32>,
    /// False if the replica did not end before the test's timeout.
    pub(crate) has_ended: bool,
    pub(crate) stderr: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) kind: KillKind,
    pub(crate) moment: String,
    pub(crate) next: Option<NextStart>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) schema: Vec<String>,
    /// Promised time from the kill to the next start, if the server stops the statement immediately.
    pub(crate) allowed: Duration,
}

impl Round {
    /// Returns the failures of the round. The duration of the round is not checked.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        match &self.next {
            Some(next) => {
                let sessions = next.active.iter();
                failures
                    .extend(sessions.map(|session| format!("alive at the next start: {session}")));
            }
            None => failures.push("no command started after the kill".to_owned()),
        }
        if self.window().is_none() {
            failures.extend(self.schema.iter().cloned());
            failures.extend(self.replicas.iter().filter_map(Replica::wrong_end));
        }
        failures
    }

    /// Describes the evidence that the kill hit the time between the commit of a statement and its record. None if there
    /// is no evidence. The schema of such a round is not checked.
    pub(crate) fn window(&self) -> Option<String> {
        let next = self.next.as_ref()?;
        let half_done = next.half_done.as_ref()?;
        let last = next.last_active.unwrap_or_default();
        let is_proven = next.active.is_empty() && last <= WINDOW;
        is_proven
            .then(|| format!("no statement ran later than {last:?} after the kill: {half_done}"))
    }

    /// Returns true if statements of the killed command were alive at the next start.
    pub(crate) fn is_violated(&self) -> bool {
        (self.next.as_ref()).is_some_and(|next| !next.active.is_empty())
    }

    /// Returns true if the next command started later than promised, or not at all.
    pub(crate) fn is_late(&self) -> bool {
        let next = self.next.as_ref();
        next.is_none_or(|next| next.after > self.allowed + next.stop.unwrap_or_default())
    }
}

impl Replica {
    /// Describes an incorrect end of the replica. None if the end is correct.
    fn wrong_end(&self) -> Option<String> {
        let is_correct = match self.fate {
            Fate::Killed => self.status != Some(0),
            Fate::Restarted | Fate::Survivor => self.status == Some(0),
        };
        let Self { fate, .. } = self;
        let mut last_lines = self.stderr.lines().rev();
        let error = last_lines.find(|line| line.contains("rror: "));
        let error = error.unwrap_or("no error message");
        match (self.has_ended, is_correct) {
            (true, true) => None,
            (false, _) => Some(format!("{fate:?} did not end: {error}")),
            (true, false) => Some(format!("{fate:?} exited with {:?}: {error}", self.status)),
        }
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        let lines = self.stderr.lines();
        lines.filter(|line| line.starts_with("dlock: "))
    }
}
