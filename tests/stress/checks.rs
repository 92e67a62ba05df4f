//! Finds the failures of a round or a tick, from the output of the commands and the exit status of all processes.
//!
//! These checks start no process, read no clock, and do not trust the messages of dlock.

use std::time::Duration;

/// Words that a command writes, followed by the number of its replica or tick. The command writes the first word after
/// it has succeeded, and the second if the process tree of an earlier command is still alive.
pub(crate) const DONE: &str = "done";
pub(crate) const NOT_ALONE: &str = "not-alone";

/// The signal that the test sends to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalSent {
    /// SIGKILL. The replica was the first holder, and its command was half done.
    Killed,
    /// SIGTERM while the replica waited.
    Stopped,
    /// No signal.
    NoSignal,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Exit status. None if a signal killed the process.
    pub(crate) status: Option<i32>,
    /// Time from the kill in the round to the end of the process.
    pub(crate) after: Duration,
}

/// One of the replicas that start together.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) fate: SignalSent,
    /// None if the replica did not end before the test's timeout.
    pub(crate) end: Option<End>,
    /// Standard error of the replica.
    pub(crate) stderr: String,
}

/// A round, in which replicas start together with a task that must succeed exactly once.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Lines that the commands wrote, in their order.
    pub(crate) written: Vec<String>,
    pub(crate) replicas: Vec<Replica>,
    /// Expected number of replicas that are stopped.
    pub(crate) stops: usize,
    /// Promised maximum time from the kill to the end of the last survivor.
    pub(crate) allowed: Duration,
}

impl Round {
    /// Returns the failures of the round. The duration of the round is not checked.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::from_iter(wrong_runs(&self.written));
        let stopped = self.with(SignalSent::Stopped).count();
        if stopped != self.stops {
            failures.push(format!(
                "{stopped} replicas were stopped, not {}",
                self.stops
            ));
        }
        let wrong = self
            .replicas
            .iter()
            .zip(1..)
            .filter_map(|(replica, number)| {
                let what = replica.wrong_end()?;
                Some(format!(
                    "replica {number} {what}; standard error: {:?}",
                    replica.stderr
                ))
            });
        failures.extend(wrong);
        failures
    }

    /// Returns the time from the kill to the end of the last survivor. None if a survivor did not end.
    pub(crate) fn last(&self) -> Option<Duration> {
        let ends = self.with(SignalSent::NoSignal);
        let ends: Option<Vec<Duration>> = ends
            .map(|replica| replica.end.as_ref().map(|end| end.after))
            .collect();
        ends?.into_iter().max()
    }

    /// Returns true if the last survivor ended later than promised, or not at all.
    pub(crate) fn is_late(&self) -> bool {
        self.last().is_none_or(|last| last > self.allowed)
    }

    pub(crate) fn with(&self, fate: SignalSent) -> impl Iterator<Item = &Replica> {
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

    /// Describes an incorrect end of the replica. None if the end is correct.
    fn wrong_end(&self) -> Option<String> {
        let Some(End { status, .. }) = self.end else {
            return Some("did not end".to_owned());
        };
        match (self.fate, status) {
            // On a busy machine, the signal may arrive before dlock handles signals.
            (SignalSent::Killed, None)
            | (SignalSent::Stopped, None | Some(143))
            | (SignalSent::NoSignal, Some(0)) => None,
            (fate, Some(status)) => Some(format!("({fate:?}) exited with {status}")),
            (fate, None) => Some(format!("({fate:?}) was ended by a signal")),
        }
    }
}

/// A host of a tick, after its dlock has ended.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// Time from the tick to the start of dlock.
    pub(crate) started: Duration,
    /// Exit status. None if a signal killed the process.
    pub(crate) status: Option<i32>,
    /// Standard output and standard error, which cron would send by mail.
    pub(crate) mail: String,
}

/// A tick, in which several hosts execute the same crontab line.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    /// Lines that the commands wrote, in their order.
    pub(crate) written: Vec<String>,
    pub(crate) hosts: Vec<Host>,
}

impl Tick {
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::from_iter(wrong_runs(&self.written));
        for (host, number) in self.hosts.iter().zip(1..) {
            let Host { status, mail, .. } = host;
            if *status != Some(0) || !mail.is_empty() {
                failures.push(format!(
                    "host {number} exited with {status:?} and mails {mail:?}"
                ));
            }
        }
        failures
    }
}

/// Returns a description of the lines if they are incorrect: exactly one command must succeed, and every command must
/// be alone. None if the lines are correct.
fn wrong_runs(written: &[String]) -> Option<String> {
    let counts = [DONE, NOT_ALONE].map(|word| count(written, word));
    let [successes, not_alone] = counts;
    let what = format!("{successes} successes, {not_alone} not alone: {written:?}");
    (counts != [1, 0]).then_some(what)
}

/// Returns the number of lines that begin with `word`.
pub(crate) fn count(written: &[String], word: &str) -> usize {
    let begins_with_word = |line: &&String| line.split(' ').next() == Some(word);
    written.iter().filter(begins_with_word).count()
}
