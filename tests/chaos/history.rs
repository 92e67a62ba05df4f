//! The history of a chaos run. Each line contains one event as JSON.
//!
//! The runner and all commands that dlock starts append to the same file. Each line is one write to a file that is open
//! for appending, so lines from different processes never mix. The process that observes an event reads the time from
//! `CLOCK_BOOTTIME`, so times from different processes can be compared.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::fault_kind::FaultKind;
use crate::schedule::Plan;

/// Microseconds since the boot of the machine.
pub(crate) type Micros = u64;

/// Name of the site with a Galera cluster. Its contenders wait on different nodes.
pub(crate) const GALERA_SITE: &str = "nodes";

/// Why a program of `dlock hold` had to stop before its work was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StopCause {
    /// The clock had reached the latest instant that the program knew.
    Clock,
    /// dlock said so.
    Lost,
    EndOfEvents,
    /// Another holder worked, or the store refused the token.
    Overlap,
}

/// Returns the time of `CLOCK_BOOTTIME`, which all processes share.
pub(crate) fn now() -> Micros {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("the uptime is not negative");
    let micros = u64::try_from(time.tv_nsec / 1_000).expect("the nanoseconds are not negative");
    seconds * 1_000_000 + micros
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// An event with its time, and with the run of dlock and the action that it concerns. None if it does not concern a
/// single one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
    #[serde(flatten)]
    pub(crate) event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    #[serde(rename = "asked")]
    Launched {
        parent: u32,
        plan: Plan,
    },
    /// The command was started. `alone` is true if no process of an earlier command of this action was alive.
    Started {
        token: u64,
        pid: u32,
        parent: u32,
        alone: bool,
    },
    Counting {
        count: u64,
    },
    Counted {
        count: u64,
    },
    /// The store refused the token, because it had accepted a higher token.
    Refused {
        token: u64,
        highest: u64,
    },
    Finished,
    /// The program of a hold had to stop before its work was finished.
    Stopped {
        cause: StopCause,
    },
    /// The last process of the command's tree is dead, or the program of a hold does not work any more.
    Dead,
    /// dlock exited or was killed by a signal.
    Ended(End),
    /// The fault with this number begins. It affects one run, all runs of an action, or the whole site.
    Fault {
        fault: u64,
        kind: FaultKind,
        site: String,
        pid: Option<u32>,
    },
    /// The fault has ended. `hit` is true if the fault affected a run.
    Healed {
        fault: u64,
        hit: bool,
    },
    /// An operator's request has revoked the lease of the run.
    Revoked,
    /// A session of a program that is not a command of the action was checked. `is_alive` is false if the session has
    /// ended since the previous check. The run is the one whose caller has the session, and None for a program that has
    /// started no dlock.
    Session {
        is_alive: bool,
    },
    /// A stall of the given length has ended. During the stall, the server of `site` did not commit or, if `site` is
    /// None, the kernel did not schedule the runner.
    Stalled {
        site: Option<String>,
        micros: Micros,
    },
    Quiet,
    /// All contenders are served, or the time limit for serving them has expired.
    Overdue,
    /// A process of the chaos run was still alive after the time limit for its exit.
    Orphan {
        pid: u32,
        words: String,
    },
    Counter {
        count: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    #[serde(skip)]
    pub(crate) at: Micros,
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stderr: String,
}

pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn open(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true);
        let file = file.open(folder.join("history"));
        Self(file.expect("the history can be opened"))
    }

    pub(crate) fn record(&self, event: Event) {
        self.write(now(), None, None, event);
    }

    /// Writes an event of `run` and `action` with the current time, and returns this time.
    pub(crate) fn record_of(&self, run: Option<u64>, action: &str, event: Event) -> Micros {
        self.write(now(), run, Some(action), event)
    }

    /// Writes an event of the time `at`, and returns this time.
    pub(crate) fn write(
        &self,
        at: Micros,
        run: Option<u64>,
        action: Option<&str>,
        event: Event,
    ) -> Micros {
        let action = action.map(str::to_owned);
        let line = Line {
            at,
            run,
            action,
            event,
        };
        let mut text = serde_json::to_string(&line).expect("an event is plain data");
        text.push('\n');
        (&self.0)
            .write_all(text.as_bytes())
            .expect("the history can be written");
        at
    }
}

pub(crate) fn read(folder: &Path) -> Vec<Line> {
    let text = fs::read_to_string(folder.join("history")).expect("the history can be read");
    let line = |line| serde_json::from_str(line).expect("a line is an event");
    let mut lines: Vec<Line> = text.lines().map(line).collect();
    lines.sort_by_key(|line| line.at);
    lines
}
