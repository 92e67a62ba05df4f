//! Detects the death of each command's process tree. One thread watches the read ends of all fifos.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fs::{Mode, OFlags, open};

use crate::history::{Event, Journal, Micros, micros, now};

/// Time for which a process tree is still watched after the end of its dlock. The tree may never have started.
const WATCH_TIME: Duration = Duration::from_secs(20);

/// A process tree that has not started or is alive.
struct WatchedTree {
    fifo: OwnedFd,
    action: String,
    ended: Option<Micros>,
}

pub(crate) struct TreeWatcher {
    epoll: OwnedFd,
    trees: Mutex<BTreeMap<u64, WatchedTree>>,
    is_closed: AtomicBool,
}

impl TreeWatcher {
    pub(crate) fn new() -> Self {
        Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("the kernel has epoll"),
            trees: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Watches the process tree of `run` through `fifo`. Must be called before the tree starts.
    pub(crate) fn watch(&self, run: u64, action: &str, fifo: &Path) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fifo = open(fifo, flags, Mode::empty()).expect("the fifo can be opened");
        let flags = epoll::EventFlags::HUP | epoll::EventFlags::ONESHOT;
        // The kernel reports a hangup only if a process has had the fifo open for writing.
        epoll::add(&self.epoll, &fifo, epoll::EventData::new_u64(run), flags)
            .expect("a fifo can be watched");
        let action = action.to_owned();
        let ended = None;
        let tree = WatchedTree {
            fifo,
            action,
            ended,
        };
        self.locked().insert(run, tree);
    }

    /// Records that dlock has ended. A command that has not started by now will never start.
    pub(crate) fn ended(&self, run: u64) {
        if let Some(tree) = self.locked().get_mut(&run) {
            tree.ended = Some(now());
        }
    }

    /// Records the deaths of process trees in `journal` until [`Self::close`].
    pub(crate) fn run(&self, journal: &Journal) {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        let mut events = Vec::with_capacity(64);
        while !self.is_closed.load(Ordering::Relaxed) {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("epoll_wait: {error}"),
            }
            for event in events.drain(..) {
                let run = event.data.u64();
                let tree = self.locked().remove(&run);
                if let Some(WatchedTree { fifo, action, .. }) = tree {
                    journal.record_of(run, &*action, Event::Dead);
                    drop(fifo);
                }
            }
            let old = now().saturating_sub(micros(WATCH_TIME));
            self.locked()
                .retain(|_, tree| tree.ended.is_none_or(|ended| ended > old));
        }
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, WatchedTree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
