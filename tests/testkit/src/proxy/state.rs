//! The state that the handles and the threads of a proxy share: injected faults, recorded requests and connections.
//!
//! One mutex protects the [`State`], and one mutex for each connection protects its [`ConnectionState`]. A thread that
//! needs both mutexes locks the [`State`] first. Every change notifies the condition variable, so that waiting threads
//! check their conditions again.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::wire::Kind;
use super::{AcceptMode, Alter, Fault, Flow, PATIENCE, Session, carry};

/// The shared state, and the condition variable that signals changes of the state.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) target: u16,
    pub(super) door: AcceptMode,
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
    /// Connections that were accepted with [`AcceptMode::Silent`].
    pub(super) silent: Vec<TcpStream>,
}

/// A fault to inject and the progress of its injection.
pub(super) struct Injection {
    pub(super) kind: Kind,
    pub(super) fault: Fault,
    /// The number of further requests that the fault affects. [`usize::MAX`] means all requests.
    pub(super) left: usize,
    pub(super) hits: usize,
    pub(super) may_go: bool,
    pub(super) response: Vec<u8>,
}

/// The two sockets of a connection. After a reset, the kernel sends the RST when the last thread drops this value.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) number: usize,
    pub(super) course: Mutex<ConnectionState>,
}

#[derive(Default)]
pub(super) struct ConnectionState {
    pub(super) is_dead: bool,
    /// The fault that affects the current request, with its index in [`State::injections`]. None means that no fault
    /// affects the request.
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
        assert!(!timeout.timed_out(), "timed out while waiting for: {what}");
    }
}

impl State {
    pub(super) fn asked(&self, kind: Kind) -> usize {
        self.asked.get(&kind).copied().unwrap_or_default()
    }
}

impl Connection {
    pub(super) fn course(&self) -> MutexGuard<'_, ConnectionState> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection for both sides. Call this method only inside [`Shared::change`], because otherwise a thread
    /// that starts to wait at this moment would miss the change.
    pub(super) fn end(&self, by_reset: bool) {
        self.course().is_dead = true;
        for socket in [&self.client, &self.server] {
            carry::abandon(socket, by_reset);
            // The shutdown wakes the thread that reads the socket, and sends no packet.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}
