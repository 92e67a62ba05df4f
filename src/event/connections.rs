//! The thread that watches which connections the command has to dlock's server.
//!
//! The thread reads `/proc` in short intervals and sends an event when the connections have changed. A separate thread
//! reads `/proc`, because the time for a large process tree has no limit. The thread only reads, so dlock exits without
//! waiting for it.

use std::collections::BTreeSet;
use std::io;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::event::Event;
use crate::event::queue::EventSender;
use crate::store::session::CommandConnections;
use crate::sys::clock;
use crate::sys::socket::Interrupter;
use crate::sys::tcp::{self, ProcessSockets, SocketFinder, is_loopback};

/// Minimum pause between two looks at the beginning. A session whose client dies before the next look is not found. Each
/// look at a small tree takes a fraction of a millisecond.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// Longest of the minimum pauses. It is reached after a hundred times this time, because most commands connect soon after
/// their start.
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// Ratio of the pause to the processor time of the look before it, so that a large tree uses at most two percent of one
/// processor.
const PAUSE_FACTOR: u32 = 50;

/// A handle to the thread.
#[derive(Debug)]
pub struct ConnectionWatcher(Thread);

impl ConnectionWatcher {
    /// Starts a thread that watches the connections of all descendants of the process `root`. `interrupter` watches
    /// dlock's own connection.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub fn start(root: u32, interrupter: Interrupter, events: EventSender) -> io::Result<Self> {
        let thread = thread::Builder::new().name("connections".to_owned());
        let thread = thread.spawn(move || {
            let mut previous = CommandConnections::default();
            let beginning = clock::now();
            let mut finder = SocketFinder::default();
            loop {
                let started = clock::thread_time();
                let current = connections(root, &interrupter, &mut finder);
                if let Some(current) = current.filter(|current| *current != previous) {
                    previous.clone_from(&current);
                    if events.send(Event::Connections(current)).is_err() {
                        return;
                    }
                }
                let used = clock::thread_time().saturating_sub(started);
                let pause = clock::now().since(beginning) / 100;
                let pause = pause.clamp(MIN_PAUSE, LONG_PAUSE);
                thread::park_timeout(pause.max(PAUSE_FACTOR * used));
            }
        })?;
        Ok(Self(thread.thread().clone()))
    }

    /// Makes the thread look immediately, because the command is about to be stopped.
    pub fn look_now(&self) {
        self.0.unpark();
    }
}

/// Returns the connections of the descendants of `root` to dlock's server. None if dlock itself is not connected, so that
/// the server's address is unknown.
fn connections(
    root: u32,
    interrupter: &Interrupter,
    finder: &mut SocketFinder,
) -> Option<CommandConnections> {
    let own = tcp::connection_of(interrupter.watched()?);
    let ProcessSockets {
        tcp,
        with_unix_sockets,
    } = finder.sockets_of_descendants(root);
    let is_local = own.is_none_or(|own| is_loopback(own.remote.ip()));
    let tcp = tcp.into_iter().filter(|one| {
        let both_loopback = is_local && is_loopback(one.remote.ip());
        match own {
            Some(own) => {
                one.remote == own.remote || both_loopback && one.remote.port() == own.remote.port()
            }
            // dlock uses a Unix socket. The store compares the port with the server's port.
            None => both_loopback,
        }
    });
    Some(CommandConnections {
        tcp: tcp
            .map(|one| (one.local.port(), one.remote.port()))
            .collect(),
        pids: match is_local {
            true => with_unix_sockets,
            false => BTreeSet::new(),
        },
    })
}
