//! Reads from the server on a short thread with a connection of its own, at most one at a time.
//!
//! The database thread may wait for the queue lock, or has to be ready for the next renewal, so it cannot read anything
//! else. No loop waits for such a read. Name resolution has no time limit, so dlock exits without waiting for the
//! thread, and starts no second thread while one is running.

use std::thread;
use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;

/// Starts the reads, at most one at a time.
#[derive(Debug)]
pub struct BackgroundRead {
    targets: Targets,
    timing: Timing,
    /// The latest read. None before the first read.
    latest: Option<LatestRead>,
}

/// The read that was started last.
#[derive(Debug)]
struct LatestRead {
    started: BootInstant,
    /// The thread. None when its result has arrived.
    worker: Option<Worker>,
}

impl BackgroundRead {
    /// Returns a reader without a thread and without a connection.
    #[must_use]
    pub const fn new(targets: Targets, timing: Timing) -> Self {
        Self {
            targets,
            timing,
            latest: None,
        }
    }

    /// Starts a thread that waits for `delay`, calls `read` with a database without a connection, and passes the result
    /// to `send`. Does nothing if the latest read started less than `interval` ago. If that read is still running after
    /// `interval`, ends its connection instead.
    pub fn start<T>(
        &mut self,
        now: BootInstant,
        interval: Duration,
        delay: Duration,
        read: impl FnOnce(&mut Database) -> T + Send + 'static,
        send: impl FnOnce(T) + Send + 'static,
    ) {
        if let Some(latest) = &self.latest
            && (latest.worker.is_some() || now.since(latest.started) < interval)
        {
            if now.since(latest.started) >= interval {
                latest.worker.iter().for_each(Worker::interrupt);
            }
            return;
        }
        let Timing {
            request_timeout,
            ttl,
            ..
        } = self.timing;
        let database = Database::new(self.targets.clone(), request_timeout, ttl);
        // If the kernel cannot create the thread, there is no result.
        let worker = Worker::start(database).ok();
        if let Some(worker) = &worker {
            worker.send(move |database| {
                thread::park_timeout(delay);
                send(read(database));
            });
        }
        self.latest = Some(LatestRead {
            started: now,
            worker,
        });
    }

    /// Records that the result of the latest read has arrived.
    pub fn finish(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.worker = None;
        }
    }

    /// Returns the start of the read that is running. None if none is running.
    #[must_use]
    pub fn running_since(&self) -> Option<BootInstant> {
        let running = (self.latest.as_ref()).filter(|latest| latest.worker.is_some());
        running.map(|latest| latest.started)
    }
}
