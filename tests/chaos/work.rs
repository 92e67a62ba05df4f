//! The work of a holder, whatever its kind: it increments a count in the store of its action. While it works, it has a
//! `flock` on the witness file of each lock of its run.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::history::{Event, Journal, Line, Micros};
use crate::store::{Response, Store};

/// Maximum pause between reading the count and writing the new count.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The leases of a run.
pub(crate) struct Leases {
    /// The locks in the order of their grants. The last one is the action of the run.
    locks: Vec<String>,
    /// Token of the action.
    pub(crate) token: u64,
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

    /// Returns the action of the run.
    pub(crate) fn action(&self) -> &str {
        self.locks.last().expect("a run has a lock")
    }
}

/// The work of one run.
pub(crate) struct Work<'a> {
    journal: &'a Journal,
    run: u64,
    action: &'a str,
    token: u64,
    store: Store,
}

impl<'a> Work<'a> {
    pub(crate) fn open(journal: &'a Journal, folder: &Path, run: u64, leases: &'a Leases) -> Self {
        let action = leases.action();
        let store = Store::open(&folder.join("store").join(action));
        Self {
            journal,
            run,
            action,
            token: leases.token,
            store: store.expect("the store can be opened"),
        }
    }

    /// Increments the count, with a pause between the read and the write, and returns the response of the store.
    /// Directly before the write, `begin` returns the time of the write and a value that is dropped after it, or None
    /// if the holder must not write. Then this function returns None too.
    pub(crate) fn count<T>(
        &mut self,
        pause: Duration,
        begin: impl FnOnce() -> Option<(Micros, T)>,
    ) -> Option<Response> {
        let (run, action, token) = (self.run, self.action.to_owned(), self.token);
        let mut response = self.store.read(token).expect("the store can be read");
        let mut guard = None;
        if let Response::Count(before) = response {
            thread::sleep(pause);
            let (at, value) = begin()?;
            guard = Some(value);
            let count = before + 1;
            let event = Event::Counting {
                run,
                action: action.clone(),
                count,
            };
            self.journal.write(&Line { at, event });
            let written = self.store.write(token, count);
            response = written.expect("the store can be written");
        }
        self.journal.record(match response {
            Response::Count(count) => Event::Counted { run, action, count },
            Response::Refused(highest) => Event::Refused {
                run,
                action,
                token,
                highest,
            },
        });
        drop(guard);
        Some(response)
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
    /// Locks the witness files of `leases` in `folder`. A holder that accepts others shares that of its lock, and has the
    /// file of its slot alone. The locked files of slots and of limits show which other holders work.
    pub(crate) fn take(folder: &Path, leases: &Leases, limit: u32) -> Self {
        let (folder, locks) = (folder.join("witness"), &leases.locks);
        let operation = match limit {
            1 => FlockOperation::NonBlockingLockExclusive,
            _ => FlockOperation::NonBlockingLockShared,
        };
        let mut files: Vec<OwnedFd> = locks
            .iter()
            .map(|lock| open_inherited(&folder.join(lock)))
            .collect();
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
pub(crate) fn open_inherited(path: &Path) -> OwnedFd {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.write(true).custom_flags(flags).open(path);
    let file = OwnedFd::from(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    fcntl_setfd(&file, FdFlags::empty()).expect("the close-on-exec flag can be cleared");
    file
}

/// Returns the number in `text`.
pub(crate) fn number<T: std::str::FromStr>(text: Option<impl AsRef<str>>) -> T {
    text.and_then(|text| text.as_ref().parse().ok())
        .expect("dlock and the chaos run set a number")
}
