//! The work of a run since its start: its times, and what may have prevented the renewals of its leases.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::event::event_loop::LONGEST_SLEEP;
use crate::lease::instant::BootInstant;
use crate::outcome::{KilledRemains, RunFacts};
use crate::protocol::keeper::Keeper;
use crate::report::messages;

/// Minimum time by which a sleep of the event loop must be too long to count as a stop of this process.
const MIN_STOP: Duration = Duration::from_millis(500);

/// The work of a run that has started.
pub(in crate::commands::exec) struct Started {
    at: BootInstant,
    /// The time before the start.
    waited: Duration,
    /// Time for which this process did not run since the most recent successful renewal. None if it was not stopped.
    stopped_for: Option<Duration>,
    /// Error number of the latest check of the heartbeat file. None if the file can be read.
    heartbeat_error: Option<i32>,
}

impl Started {
    pub(super) const fn new(at: BootInstant, waited: Duration) -> Self {
        Self {
            at,
            waited,
            stopped_for: None,
            heartbeat_error: None,
        }
    }

    /// Records a successful renewal.
    pub(super) const fn renewed(&mut self) {
        self.stopped_for = None;
    }

    /// Records that a sleep of the event loop has taken the time `took`.
    pub(super) fn slept(&mut self, took: Duration) {
        if took >= LONGEST_SLEEP + MIN_STOP {
            self.stopped_for = Some(took);
        }
    }

    /// Records the result of a check of the heartbeat file.
    pub(super) const fn heartbeat_checked(&mut self, errno: Option<i32>) {
        self.heartbeat_error = errno;
    }

    /// Returns the facts of the run, which has just ended. `processes` is the number of processes that were left and killed.
    pub(super) fn facts(&self, now: BootInstant, processes: u32) -> RunFacts {
        RunFacts {
            waited: self.waited,
            took: now.since(self.at),
            killed: KilledRemains {
                sessions: 0,
                processes,
            },
        }
    }

    /// Returns the reason why the lease of `keeper` cannot be kept.
    pub(super) fn why_not_renewed(&self, keeper: &Keeper, heartbeat_file: Option<&Path>) -> String {
        match (keeper.renewal_failure(), heartbeat_file) {
            (_, Some(file)) if keeper.is_silent() => {
                let why = match self.heartbeat_error {
                    Some(errno) => {
                        format!("cannot be read: {}", io::Error::from_raw_os_error(errno))
                    }
                    None => "does not change".to_owned(),
                };
                format!("no heartbeat, because {} {why}", file.display())
            }
            (Some(failure), _) => failure.to_string(),
            (None, _) => match self.stopped_for.map(messages::duration) {
                Some(stopped_for) => format!("dlock was stopped for {stopped_for}"),
                None => "no response from the server".to_owned(),
            },
        }
    }
}
