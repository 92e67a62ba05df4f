//! Decides whether a round or a tick is a miss, from the output of the commands and the exit of all processes.
//!
//! It starts nothing, reads no clock and does not trust the messages of dlock.

use std::time::Duration;

/// Words that a command writes, followed by its number: when it has succeeded, and when the tree of an earlier command
/// was still alive.
pub(crate) const DONE: &str = "done";
pub(crate) const NOT_ALONE: &str = "not-alone";

/// The signal that a replica gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// SIGKILL: the replica was the first holder, half-way through its command.
    Killed,
    /// SIGTERM, while the replica waited.
    Stopped,
    LetAlone,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Exit status. None if a signal killed the process.
    pub(crate) status: Option<i32>,
    /// Time of the end after the kill in a round.
    pub(crate) after: Duration,
}

/// One of the replicas that start together.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) fate: Fate,
    /// None if the replica did not end in time.
    pub(crate) end: Option<End>,
    /// Standard error of the replica.
    pub(crate) said: String,
}

/// Replicas that start together with a task that must succeed once.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Lines that the commands wrote, in order.
    pub(crate) written: Vec<String>,
    pub(crate) replicas: Vec<Replica>,
    /// Number of replicas that should have been stopped.
    pub(crate) stops: usize,
    /// Promised maximum time from the kill to the end of the last survivor.
    pub(crate) allowed: Duration,
}

impl Round {
    /// Returns what is wrong with the round, apart from its duration.
    pub(crate) fn misses(&self) -> Vec<String> {
        let mut misses = Vec::from_iter(wrong_runs(&self.written));
        let stopped = self.with(Fate::Stopped).count();
        if stopped != self.stops {
            misses.push(format!("{stopped} were stopped, not {}", self.stops));
        }
        let wrong = self
            .replicas
            .iter()
            .zip(1..)
            .filter_map(|(replica, number)| {
                let what = replica.wrong_end()?;
                Some(format!(
                    "replica {number} {what}; it said {:?}",
                    replica.said
                ))
            });
        misses.extend(wrong);
        misses
    }

    /// Returns the time of the last survivor's end. None if a survivor did not end.
    pub(crate) fn last(&self) -> Option<Duration> {
        let ends = self.with(Fate::LetAlone);
        let ends: Option<Vec<Duration>> = ends
            .map(|replica| replica.end.as_ref().map(|end| end.after))
            .collect();
        ends?.into_iter().max()
    }

    /// Returns true if the last survivor ended later than promised, or not at all.
    pub(crate) fn is_late(&self) -> bool {
        self.last().is_none_or(|last| last > self.allowed)
    }

    pub(crate) fn with(&self, fate: Fate) -> impl Iterator<Item = &Replica> {
        self.replicas
            .iter()
            .filter(move |replica| replica.fate == fate)
    }
}

impl Replica {
    /// Returns true if the replica exited with 0.
    pub(crate) fn is_served(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status == Some(0))
    }

    /// Describes what is wrong with the replica's end. None if it is right.
    fn wrong_end(&self) -> Option<String> {
        let Some(End { status, .. }) = self.end else {
            return Some("never ended".to_owned());
        };
        match (self.fate, status) {
            // On a busy machine the signal may come before dlock handles signals.
            (Fate::Killed, None)
            | (Fate::Stopped, None | Some(143))
            | (Fate::LetAlone, Some(0)) => None,
            (fate, Some(status)) => Some(format!("({fate:?}) ended with {status}")),
            (fate, None) => Some(format!("({fate:?}) was ended by a signal")),
        }
    }
}

/// A host of a tick, whose dlock has ended.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// Start time after the tick.
    pub(crate) started: Duration,
    /// Exit status. None if a signal killed the process.
    pub(crate) status: Option<i32>,
    /// Standard output and standard error, which cron would mail.
    pub(crate) mail: String,
}

/// Hosts with the same crontab line.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    /// Lines that the commands wrote, in order.
    pub(crate) written: Vec<String>,
    pub(crate) hosts: Vec<Host>,
}

impl Tick {
    pub(crate) fn misses(&self) -> Vec<String> {
        let mut misses = Vec::from_iter(wrong_runs(&self.written));
        for (host, number) in self.hosts.iter().zip(1..) {
            let Host { status, mail, .. } = host;
            if *status != Some(0) || !mail.is_empty() {
                misses.push(format!(
                    "host {number} ended with {status:?} and mails {mail:?}"
                ));
            }
        }
        misses
    }
}

/// Describes what is wrong with the lines of commands of which exactly one should succeed. None if they are right.
fn wrong_runs(written: &[String]) -> Option<String> {
    let counts = [DONE, NOT_ALONE].map(|word| count(written, word));
    let [successes, company] = counts;
    let what = format!("{successes} successes, {company} not alone: {written:?}");
    (counts != [1, 0]).then_some(what)
}

/// Returns the number of lines that begin with `word`.
pub(crate) fn count(written: &[String], word: &str) -> usize {
    let is_meant = |line: &&String| line.split(' ').next() == Some(word);
    written.iter().filter(is_meant).count()
}
