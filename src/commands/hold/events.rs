//! The events that `dlock hold` prints on stdout.
//!
//! A reader that stops reading must not delay a renewal, so a thread writes the events from a bounded queue. If the queue is
//! full, an event is dropped: then the reader knows an older deadline, which is safe, and sees the end of stdout.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::report::format::json_line;
use crate::sys::stderr::in_background;

/// Maximum number of events in the queue.
const MAX_QUEUED: usize = 64;

/// Maximum time that dlock waits at its end for the events to be written.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// An event. The format is documented in dlock-hold(1) and is stable: events and fields may be added, but are never renamed
/// or removed.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum HoldEvent<'a> {
    /// dlock waits.
    Waiting {
        /// Label of the holder. None if it is not known.
        holder: Option<&'a str>,
        /// Token of the holder. None if it is not known.
        token: Option<u64>,
        /// Number of waiters ahead.
        ahead: u64,
        waited_ms: u64,
    },
    /// The lock is held.
    Granted {
        format: u8,
        action: &'a str,
        token: u64,
        slot: u32,
        /// The token of each name.
        tokens: &'a serde_json::Map<String, serde_json::Value>,
        holder: &'a str,
        waited_ms: u64,
        stop_at_ms: u64,
        deadline_ms: u64,
        /// The variables with which a process runs under the lease.
        env: &'a serde_json::Map<String, serde_json::Value>,
    },
    /// The lease was renewed.
    Renewed { stop_at_ms: u64, deadline_ms: u64 },
    /// A renewal has failed, and is tried again.
    Failing { why: &'a str },
    /// The program must stop.
    Lost {
        why: &'a str,
        by: Option<&'a str>,
        status: u8,
    },
    /// The server has confirmed the release.
    Released {},
}

/// The writer of the events.
pub(super) struct EventWriter {
    is_json: bool,
    /// None after the end, and if the kernel cannot create a thread.
    lines: Option<SyncSender<String>>,
    /// A channel that is disconnected when the thread has ended.
    ended: Receiver<Infallible>,
    /// The main function of the thread, which starts with the first line. Before that, signals may not be blocked yet.
    thread: Option<Box<dyn FnOnce() + Send>>,
}

impl EventWriter {
    /// Creates a writer to `stdout`, a copy of stdout, of JSON if `is_json` is true, or otherwise of the token only.
    pub(super) fn new(is_json: bool, mut stdout: File) -> Self {
        let (lines, queue) = mpsc::sync_channel::<String>(MAX_QUEUED);
        let (alive, ended) = mpsc::channel();
        let thread = move || {
            for line in queue {
                // A closed stdout is no error: the program may only wait for the end of dlock.
                let _ = in_background(|| stdout.write_all(line.as_bytes()));
            }
            drop(alive);
        };
        Self {
            is_json,
            lines: Some(lines),
            ended,
            thread: Some(Box::new(thread)),
        }
    }

    /// Writes `event`, or drops it if the reader is slow.
    pub(super) fn write(&mut self, event: &HoldEvent) {
        let line = match (self.is_json, event) {
            // The values have no type that cannot be written.
            (true, event) => json_line(event).unwrap_or_default(),
            (false, HoldEvent::Granted { token, .. }) => format!("{token}\n"),
            (false, _) => return,
        };
        if let Some(thread) = self.thread.take() {
            let started = thread::Builder::new()
                .name("stdout".to_owned())
                .spawn(thread);
            if started.is_err() {
                self.lines = None;
            }
        }
        if let Some(lines) = &self.lines {
            let _ = lines.try_send(line);
        }
    }

    /// Waits a short time until all events are written.
    pub(super) fn close(&mut self) {
        self.lines = None;
        self.thread = None;
        let _ = self.ended.recv_timeout(DRAIN_TIMEOUT);
    }
}
