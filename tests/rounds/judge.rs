//! What makes a round or a tick a miss, by what the commands themselves have written and how all processes ended.
//!
//! Starts nothing, looks at no clock and believes nothing that dlock says of itself.

use std::time::Duration;

/// What a command writes, with its number behind it, when it has succeeded, and when an earlier one's tree still lived.
pub(crate) const DONE: &str = "done";
pub(crate) const NOT_ALONE: &str = "not-alone";

/// What is done to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was the first holder, and got a SIGKILL half-way.
    Killed,
    /// It waited, and got a SIGTERM.
    Stopped,
    LetAlone,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// None if a signal ended it.
    pub(crate) status: Option<i32>,
    /// After the kill in a round.
    pub(crate) after: Duration,
}

/// One of those that started together.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) fate: Fate,
    /// None if it never ended by itself.
    pub(crate) end: Option<End>,
    /// What it said on its standard error.
    pub(crate) said: String,
}

/// Replicas that started together with something to do once.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// What their commands wrote, in order.
    pub(crate) written: Vec<String>,
    pub(crate) replicas: Vec<Replica>,
    /// How many were to be stopped.
    pub(crate) stops: usize,
    /// What is promised for the time from the kill to the last survivor's end.
    pub(crate) allowed: Duration,
}

impl Round {
    /// What is wrong with it, apart from the time that it took.
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

    /// When the last survivor ended; none if one never did.
    pub(crate) fn last(&self) -> Option<Duration> {
        let ends = self.with(Fate::LetAlone);
        let ends: Option<Vec<Duration>> = ends
            .map(|replica| replica.end.as_ref().map(|end| end.after))
            .collect();
        ends?.into_iter().max()
    }

    /// Whether that took longer than is promised.
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
    /// Whether it ended as one that was let alone should.
    pub(crate) fn is_served(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status == Some(0))
    }

    /// What is wrong with its end, if anything is.
    fn wrong_end(&self) -> Option<String> {
        let Some(End { status, .. }) = self.end else {
            return Some("never ended".to_owned());
        };
        match (self.fate, status) {
            // On a busy machine the signal may come before dlock has got as far as to listen.
            (Fate::Killed, None)
            | (Fate::Stopped, None | Some(143))
            | (Fate::LetAlone, Some(0)) => None,
            (fate, Some(status)) => Some(format!("({fate:?}) ended with {status}")),
            (fate, None) => Some(format!("({fate:?}) was ended by a signal")),
        }
    }
}

/// A host of a tick, whose dlock came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// When it was started, after the tick.
    pub(crate) started: Duration,
    /// None if a signal ended it.
    pub(crate) status: Option<i32>,
    /// What it wrote on standard output and error, which cron would mail.
    pub(crate) mail: String,
}

/// Hosts whose crontabs have the same line.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    /// What their commands wrote, in order.
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

/// What is wrong with what commands wrote of which exactly one was to succeed.
fn wrong_runs(written: &[String]) -> Option<String> {
    let counts = [DONE, NOT_ALONE].map(|word| count(written, word));
    let [successes, company] = counts;
    let what = format!("{successes} successes, {company} not alone: {written:?}");
    (counts != [1, 0]).then_some(what)
}

/// How many lines begin with `word`.
pub(crate) fn count(written: &[String], word: &str) -> usize {
    let is_meant = |line: &&String| line.split(' ').next() == Some(word);
    written.iter().filter(is_meant).count()
}
