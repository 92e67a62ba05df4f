//! Learns when the last process of each command's tree is dead: the reading ends of their fifos, in one thread.

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

/// How long after dlock's end a tree is still watched that has not begun, and so never will.
const WAKE: Duration = Duration::from_secs(20);

/// A tree, dead or alive or not yet begun.
struct Grave {
    fifo: OwnedFd,
    action: String,
    ended: Option<Micros>,
}

pub(crate) struct Undertaker {
    epoll: OwnedFd,
    graves: Mutex<BTreeMap<u64, Grave>>,
    is_closed: AtomicBool,
}

impl Undertaker {
    pub(crate) fn new() -> Self {
        Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("the kernel has epoll"),
            graves: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Watches the tree of `run`, which must not have begun, by its fifo.
    pub(crate) fn watch(&self, run: u64, action: &str, fifo: &Path) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fifo = open(fifo, flags, Mode::empty()).expect("the fifo can be opened");
        let flags = epoll::EventFlags::HUP | epoll::EventFlags::ONESHOT;
        // The kernel tells of a hangup only if there was a writer.
        epoll::add(&self.epoll, &fifo, epoll::EventData::new_u64(run), flags)
            .expect("a fifo can be watched");
        let action = action.to_owned();
        let ended = None;
        let grave = Grave {
            fifo,
            action,
            ended,
        };
        self.locked().insert(run, grave);
    }

    /// dlock ended: if its command has not begun, it never will.
    pub(crate) fn ended(&self, run: u64) {
        if let Some(grave) = self.locked().get_mut(&run) {
            grave.ended = Some(now());
        }
    }

    /// Notes deaths in `journal` until [`Self::close`].
    pub(crate) fn work(&self, journal: &Journal) {
        let turn = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        let mut events = Vec::with_capacity(64);
        while !self.is_closed.load(Ordering::Relaxed) {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&turn)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("epoll_wait: {error}"),
            }
            for event in events.drain(..) {
                let run = event.data.u64();
                let grave = self.locked().remove(&run);
                if let Some(Grave { fifo, action, .. }) = grave {
                    journal.note(Event::Dead { run, action });
                    drop(fifo);
                }
            }
            let old = now().saturating_sub(micros(WAKE));
            self.locked()
                .retain(|_, grave| grave.ended.is_none_or(|ended| ended > old));
        }
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Grave>> {
        self.graves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
