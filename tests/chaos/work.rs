//! The work of a holder, whatever its kind: it increments a count in the store of its action. While it works, it has a
//! `flock` on the witness file of each lock of its run.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::history::{Event, Journal, Micros, StopCause, now};
use crate::schedule::Plan;
use crate::store::Store;
use crate::worker::RUN;

/// Maximum pause between reading the count and writing the new count.
const PAUSE: Duration = Duration::from_millis(100);

/// Name of a file that exists in the quiet phase.
pub(crate) const QUIET: &str = "quiet";

pub(crate) struct Leases {
    /// The locks in the order of their grants. The last one is the action of the run.
    locks: Vec<String>,
    token: u64,
    slot: u32,
}

impl Leases {
    /// Reads the variables that dlock sets for its command, or gives to its program. `variable` returns the value of
    /// one of them.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let lines = variable("DLOCK_TOKENS").expect("dlock gives DLOCK_TOKENS");
        let leases = lines.lines().filter_map(|line| line.rsplit_once('='));
        let (locks, tokens): (Vec<_>, Vec<_>) = leases.unzip();
        Self {
            locks: locks.into_iter().map(str::to_owned).collect(),
            token: number(tokens.last()),
            slot: number(variable("DLOCK_SLOT")),
        }
    }

    pub(crate) fn action(&self) -> &str {
        self.locks.last().expect("a run has a lock")
    }
}

/// Reads the arguments of a worker or a client. Returns the folder, the number of the run, and the plan.
pub(crate) fn read_arguments(arguments: &[String]) -> (PathBuf, u64, Plan) {
    let [folder, plan] = arguments else {
        panic!("{arguments:?}: not a folder and a plan");
    };
    let plan = serde_json::from_str(plan).expect("the plan is JSON");
    (folder.into(), number(std::env::var(RUN).ok()), plan)
}

pub(crate) struct Holder {
    folder: PathBuf,
    run: u64,
    pub(crate) plan: Plan,
    leases: Leases,
    journal: Journal,
    store: Store,
    /// The fifo, whose hangup reports the death of the last process.
    _life: OwnedFd,
}

impl Holder {
    pub(crate) fn new(folder: PathBuf, run: u64, plan: Plan, leases: Leases) -> Self {
        let store = folder.join("store").join(leases.action());
        Self {
            journal: Journal::open(&folder),
            _life: open_inherited(&folder.join("life").join(run.to_string())),
            store: Store::open(&store),
            folder,
            run,
            plan,
            leases,
        }
    }

    pub(crate) fn write(&self, at: Micros, event: Event) {
        let action = self.leases.action();
        self.journal.write(at, Some(self.run), Some(action), event);
    }

    /// Writes the start of the work. `parent` is the process id of dlock.
    pub(crate) fn write_start(&self, at: Micros, parent: u32, witnesses: &Witnesses) {
        let event = Event::Started {
            token: self.leases.token,
            pid: process::id(),
            parent,
            alone: witnesses.is_alone,
        };
        self.write(at, event);
    }

    pub(crate) fn take_witnesses(&self) -> Witnesses {
        Witnesses::take(&self.folder, &self.leases, self.plan.limit)
    }

    /// Works for the planned time since `start`, or until the quiet phase, in which other contenders wait. Directly
    /// before each write, `begin` returns the time of the write and a value that is dropped after it, or why the holder
    /// must not write. Then this function returns the cause too.
    pub(crate) fn work<T>(
        &self,
        start: Micros,
        begin: impl Fn(&Self) -> Result<(Micros, T), StopCause>,
    ) -> Result<(), StopCause> {
        let end = start + self.plan.hold * 1_000;
        let quiet = self.folder.join(QUIET);
        loop {
            let pause = PAUSE.min(Duration::from_micros(end.saturating_sub(now())));
            // The store accepts no token that is lower than one of a holder that works beside this one.
            if self.plan.is_exclusive() {
                self.count(pause, &begin)?;
            } else {
                thread::sleep(pause);
                begin(self)?;
            }
            if now() >= end || quiet.exists() {
                return Ok(());
            }
        }
    }

    /// Increments the count, with a pause between the read and the write.
    fn count<T>(
        &self,
        pause: Duration,
        begin: impl Fn(&Self) -> Result<(Micros, T), StopCause>,
    ) -> Result<(), StopCause> {
        let token = self.leases.token;
        let mut response = self.store.exchange(token, None);
        let mut guard = None;
        if let Ok(before) = response {
            thread::sleep(pause);
            let (at, value) = begin(self)?;
            guard = Some(value);
            let count = before + 1;
            self.write(at, Event::Counting { count });
            response = self.store.exchange(token, Some(count));
        }
        let (event, outcome) = match response {
            Ok(count) => (Event::Counted { count }, Ok(())),
            Err(highest) => (Event::Refused { token, highest }, Err(StopCause::Overlap)),
        };
        self.write(now(), event);
        drop(guard);
        outcome
    }
}

/// Largest number of a slot that the witnesses know.
const MAX_SLOT: u32 = 32;

/// The descriptors of the locked witness files, which all descendants inherit.
pub(crate) struct Witnesses {
    /// True if no other holder works that this one, or the other one, does not accept.
    pub(crate) is_alone: bool,
    _files: Vec<OwnedFd>,
}

impl Witnesses {
    /// Locks the witness files of `leases` in `folder`. A holder that accepts others shares that of its lock, and has
    /// the file of its slot alone. The locked files of slots and of limits show which other holders work.
    fn take(folder: &Path, leases: &Leases, limit: u32) -> Self {
        let (folder, locks) = (folder.join("witness"), &leases.locks);
        let operation = match limit {
            1 => FlockOperation::NonBlockingLockExclusive,
            _ => FlockOperation::NonBlockingLockShared,
        };
        let files = locks.iter().map(|lock| open_inherited(&folder.join(lock)));
        let mut files: Vec<OwnedFd> = files.collect();
        let mut is_alone = files.iter().all(|file| flock(file, operation).is_ok());
        if limit == 1 {
            return Self {
                is_alone,
                _files: files,
            };
        }
        let path = |kind: &str, number: u32| folder.join(format!("{}.{kind}-{number}", locks[0]));
        // One holder at a time looks at the files, because a look locks them for a moment.
        let mutex = open_or_create(&path("mutex", 0));
        flock(&mutex, FlockOperation::LockExclusive).expect("the mutex can be locked");
        let is_locked = |path: &Path| {
            let file = open_or_create(path);
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        };
        let slot = leases.slot;
        let others =
            (1..=MAX_SLOT).filter(|other| *other != slot && is_locked(&path("slot", *other)));
        let count = others.count() + 1;
        let limits = (2..=3).filter(|other| *other == limit || is_locked(&path("limit", *other)));
        is_alone &= limits
            .min()
            .is_none_or(|smallest| count <= smallest as usize);
        for (path, operation) in [
            (path("slot", slot), FlockOperation::NonBlockingLockExclusive),
            (path("limit", limit), FlockOperation::NonBlockingLockShared),
        ] {
            drop(open_or_create(&path));
            let file = open_inherited(&path);
            is_alone &= flock(&file, operation).is_ok();
            files.push(file);
        }
        Self {
            is_alone,
            _files: files,
        }
    }
}

fn open_or_create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Opens a file for writing. Descendants inherit the descriptor.
fn open_inherited(path: &Path) -> OwnedFd {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.write(true).custom_flags(flags).open(path);
    let file = OwnedFd::from(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    fcntl_setfd(&file, FdFlags::empty()).expect("the close-on-exec flag can be cleared");
    file
}

pub(crate) fn number<T: std::str::FromStr>(text: Option<impl AsRef<str>>) -> T {
    text.and_then(|text| text.as_ref().parse().ok())
        .expect("dlock and the chaos run set a number")
}
