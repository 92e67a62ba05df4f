//! The state that the handle and the threads of a proxy share: orders, recorded requests and connections.
//!
//! One lock protects all of it, and another protects the course of each connection. The course lock is taken after the
//! state lock or alone. Every change notifies the condition variable, so that waiting threads check their condition
//! again.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::wire::Kind;
use super::{Alter, Door, Fault, Flow, PATIENCE, Session, carry};

/// The shared state and the condition variable that announces its changes.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

pub(super) struct State {
    pub(super) target: u16,
    pub(super) door: Door,
    pub(super) is_listening: bool,
    pub(super) requests: Flow,
    pub(super) responses: Flow,
    pub(super) injections: Vec<Injection>,
    pub(super) rewrite: Option<(&'static str, &'static str)>,
    pub(super) greeting: Option<Alter>,
    pub(super) sessions: Vec<Session>,
    pub(super) keeps_texts: bool,
    pub(super) asked: HashMap<Kind, usize>,
    pub(super) connections: Vec<Weak<Connection>>,
    /// Connections that were accepted with [`Door::Silent`].
    pub(super) silent: Vec<TcpStream>,
}

/// An ordered fault and its effects so far.
pub(super) struct Injection {
    pub(super) kind: Kind,
    pub(super) fault: Fault,
    /// The number of requests that it still applies to. [`usize::MAX`] means all.
    pub(super) left: usize,
    pub(super) hits: usize,
    pub(super) may_go: bool,
    pub(super) response: Vec<u8>,
}

/// The two sockets of a connection. If the connection was reset, the RST is sent when its last thread drops this.
pub(super) struct Connection {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) number: usize,
    pub(super) course: Mutex<Course>,
}

/// The progress of a connection.
#[derive(Default)]
pub(super) struct Course {
    pub(super) is_dead: bool,
    /// The order that the current request has met. None if it has met no order.
    pub(super) injection: Option<(usize, Fault)>,
}

impl Shared {
    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.locked());
        self.changed.notify_all();
    }

    /// Waits until `condition` returns true. Panics after [`PATIENCE`].
    #[track_caller]
    pub(super) fn until(&self, what: &str, mut condition: impl FnMut(&State) -> bool) {
        let waited = self
            .changed
            .wait_timeout_while(self.locked(), PATIENCE, |state| !condition(state));
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "never happened: {what}");
    }
}

impl State {
    pub(super) fn asked(&self, kind: Kind) -> usize {
        self.asked.get(&kind).copied().unwrap_or_default()
    }
}

impl Connection {
    pub(super) fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection for both sides. Call it only inside [`Shared::change`]; otherwise a thread that is about to
    /// wait would miss the change.
    pub(super) fn end(&self, by_reset: bool) {
        self.course().is_dead = true;
        for socket in [&self.client, &self.server] {
            carry::abandon(socket, by_reset);
            // This wakes the thread of the socket and sends no packet.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}
