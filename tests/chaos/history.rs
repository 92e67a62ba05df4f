//! The history of a run: what happened when, one JSON line an event.
//!
//! Every process of the run appends to the same file: the runner, and each command that dlock started. A line goes out
//! in one write to a file opened for appending, so lines never mix. All times are `CLOCK_BOOTTIME` of this machine, taken
//! by whoever was alive to see the event, so that they can be compared.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::schedule::Plan;

/// Microseconds since the machine was started.
pub(crate) type Micros = u64;

/// The time on the clock that all processes of a run share.
pub(crate) fn now() -> Micros {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("a machine's age is not negative");
    let micros = u64::try_from(time.tv_nsec / 1_000).expect("a part of a second is not negative");
    seconds * 1_000_000 + micros
}

/// `duration` as the history counts.
pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Micros,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// What can happen. `run` numbers the runs of dlock, `fault` the faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The run begins.
    Began {
        seed: u64,
        flavour: String,
        seconds: u64,
    },
    /// dlock was started.
    Asked {
        run: u64,
        action: String,
        front: u32,
        plan: Plan,
    },
    /// Its command runs. `alone` says whether no process of an earlier command of this action lived at that time.
    Started {
        run: u64,
        action: String,
        token: u64,
        pid: u32,
        parent: u32,
        alone: bool,
    },
    /// The command is about to write this count into the store.
    Counting {
        run: u64,
        action: String,
        count: u64,
    },
    /// The store took it.
    Counted {
        run: u64,
        action: String,
        count: u64,
    },
    /// The store had seen a higher token.
    Refused {
        run: u64,
        action: String,
        token: u64,
        highest: u64,
    },
    /// The command has done all that it had to do.
    Finished { run: u64, action: String },
    /// The last process of the command's tree is dead.
    Dead { run: u64, action: String },
    /// dlock ended, by itself or by a signal.
    Ended {
        run: u64,
        action: String,
        status: Option<i32>,
        signal: Option<i32>,
        stderr: String,
    },
    /// A fault begins. Without an action it bears on the whole site, without a run on all of the action's.
    Fault {
        fault: u64,
        kind: Kind,
        site: String,
        action: Option<String>,
        run: Option<u64>,
        pid: Option<u32>,
    },
    /// That fault is over; whether it hit anybody.
    Healed { fault: u64, hit: bool },
    /// A fault of the schedule found nobody to bear on.
    Missed { kind: Kind, action: String },
    /// The site's server did not commit for so long until now, or without a site, the machine did not let us run.
    Stalled {
        site: Option<String>,
        micros: Micros,
    },
    /// From now on there are no faults.
    Calm,
    /// From now on nobody may still want anything.
    Overdue,
    /// A process of the run that nobody ended.
    Orphan { pid: u32, words: String },
    /// What the store of an action holds in the end.
    Counter {
        action: String,
        count: u64,
        highest: u64,
    },
}

impl Event {
    /// The action that the event is about, if it is about one.
    pub(crate) fn action(&self) -> Option<&str> {
        match self {
            Self::Asked { action, .. }
            | Self::Started { action, .. }
            | Self::Counting { action, .. }
            | Self::Counted { action, .. }
            | Self::Refused { action, .. }
            | Self::Finished { action, .. }
            | Self::Dead { action, .. }
            | Self::Ended { action, .. }
            | Self::Missed { action, .. }
            | Self::Counter { action, .. } => Some(action),
            Self::Fault { action, .. } => action.as_deref(),
            Self::Began { .. }
            | Self::Healed { .. }
            | Self::Stalled { .. }
            | Self::Calm
            | Self::Overdue
            | Self::Orphan { .. } => None,
        }
    }
}

/// The file, open for appending.
pub(crate) struct Journal(File);

impl Journal {
    /// Opens the history in `folder`, which is made if need be.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("history");
        Ok(Self(
            OpenOptions::new().create(true).append(true).open(path)?,
        ))
    }

    /// Writes that `event` happens now; returns when that was.
    pub(crate) fn note(&self, event: Event) -> Micros {
        let at = now();
        self.write(&Line { at, event });
        at
    }

    /// Writes a line whose time was taken before.
    pub(crate) fn write(&self, line: &Line) {
        let mut text = serde_json::to_string(line).expect("an event is plain data");
        text.push('\n');
        (&self.0)
            .write_all(text.as_bytes())
            .expect("the history can be written");
    }
}

/// All of the history in `folder`, in order of time.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Line>> {
    let text = fs::read_to_string(folder.join("history"))?;
    let mut lines: Vec<Line> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    lines.sort_by_key(|line| line.at);
    Ok(lines)
}
