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
use crate::lease::instant::BootInstant;
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

/// In the long run, the looks use at most one of this number of equal parts of a processor.
const PARTS: u32 = 50;

/// Processor time that the looks may use before the pauses become longer. It is enough for about 30 looks that read the
/// kernel's tables of TCP sockets. A command can therefore open several connections soon after its start.
const MAX_DEBT: Duration = Duration::from_millis(250);

/// A handle to the thread.
#[derive(Debug)]
pub struct ConnectionWatcher(Thread);

impl ConnectionWatcher {
    /// Starts a thread that watches the connections of the processes whose ids `find` returns. `interrupter` watches
    /// dlock's own connection.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub fn start(
        mut find: impl FnMut() -> Vec<u32> + Send + 'static,
        interrupter: Interrupter,
        events: EventSender,
    ) -> io::Result<Self> {
        let thread = thread::Builder::new().name("connections".to_owned());
        let thread = thread.spawn(move || {
            let mut previous = CommandConnections::default();
            let mut finder = SocketFinder::default();
            let mut pauses = Pauses::start(clock::now());
            loop {
                let started = clock::thread_time();
                let current = connections(find(), &interrupter, &mut finder);
                if let Some(current) = current.filter(|current| *current != previous) {
                    previous.clone_from(&current);
                    if events.send(Event::Connections(current)).is_err() {
                        return;
                    }
                }
                let used = clock::thread_time().saturating_sub(started);
                thread::park_timeout(pauses.next(clock::now(), used));
            }
        })?;
        Ok(Self(thread.thread().clone()))
    }

    /// Makes the thread look immediately, because the command is about to be stopped.
    pub fn look_now(&self) {
        self.0.unpark();
    }
}

/// Determines the pauses between the looks.
#[derive(Debug)]
struct Pauses {
    beginning: BootInstant,
    previous: BootInstant,
    /// Processor time of the looks, less the part of the elapsed time that they may use.
    debt: Duration,
}

impl Pauses {
    fn start(now: BootInstant) -> Self {
        Self {
            beginning: now,
            previous: now,
            debt: Duration::ZERO,
        }
    }

    /// Returns the pause after a look that ended at `now` and took the processor time `used`.
    fn next(&mut self, now: BootInstant, used: Duration) -> Duration {
        let allowed = now.since(self.previous) / PARTS;
        self.previous = now;
        self.debt = self.debt.saturating_sub(allowed) + used;
        let pause = now.since(self.beginning) / 100;
        let pause = pause.clamp(MIN_PAUSE, LONG_PAUSE);
        pause.max(self.debt.saturating_sub(MAX_DEBT) * PARTS)
    }
}

/// Returns the connections of `processes` to dlock's server. None if dlock itself is not connected, so that the server's
/// address is unknown.
fn connections(
    processes: Vec<u32>,
    interrupter: &Interrupter,
    finder: &mut SocketFinder,
) -> Option<CommandConnections> {
    let own = tcp::connection_of(interrupter.watched()?);
    let ProcessSockets {
        tcp,
        with_unix_sockets,
    } = finder.sockets_of(processes);
    let is_local = own.is_none_or(|own| is_loopback(own.remote.ip()));
    let tcp = tcp.into_iter().filter(|socket| {
        let remote = socket.connection.remote;
        let both_loopback = is_local && is_loopback(remote.ip());
        match own {
            Some(own) => {
                remote == own.remote || both_loopback && remote.port() == own.remote.port()
            }
            // dlock uses a Unix socket. The store compares the port with the server's port.
            None => both_loopback,
        }
    });
    Some(CommandConnections {
        tcp: tcp.collect(),
        pids: match is_local {
            true => with_unix_sockets,
            false => BTreeSet::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONG_PAUSE, MIN_PAUSE, PARTS, Pauses};
    use crate::lease::instant::BootInstant;

    /// Returns the pauses after looks that take this processor time.
    fn pauses(used: Duration) -> impl Iterator<Item = Duration> {
        let mut now = BootInstant::new(Duration::from_hours(1));
        let mut pauses = Pauses::start(now);
        std::iter::repeat_with(move || {
            now = now + used;
            let pause = pauses.next(now, used);
            now = now + pause;
            pause
        })
    }

    #[test]
    fn pauses_grow_while_the_command_runs() {
        let mut pauses = pauses(Duration::from_micros(100));
        assert_eq!(pauses.next(), Some(MIN_PAUSE));
        assert_eq!(pauses.nth(1_000), Some(LONG_PAUSE));
    }

    #[test]
    fn the_first_slow_looks_cause_no_longer_pauses() {
        let first: Vec<Duration> = pauses(Duration::from_millis(8)).take(30).collect();
        assert_eq!(first, [MIN_PAUSE; 30]);
    }

    #[test]
    fn slow_looks_use_a_small_part_of_the_processor() {
        for used in [8, 300, 2_000].map(Duration::from_millis) {
            let pause = pauses(used).nth(100);
            let pause = pause.expect("the pauses do not end");
            let ratio = pause.as_secs_f64() / used.as_secs_f64();
            let expected = f64::from(PARTS - 1);
            assert!((ratio - expected).abs() < 0.5, "{used:?}: {pause:?}");
        }
    }
}
