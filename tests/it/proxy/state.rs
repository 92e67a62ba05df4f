//! What the handle and the threads of a proxy share: its orders, its record, its connections.
//!
//! One lock for all of it, and one for the course of each connection, which is taken after the other or alone. Every
//! change is announced, so that whoever waits for one looks again.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::wire::Kind;
use super::{Alter, Door, Fault, Flow, PATIENCE, Session, carry};

/// What the threads of a proxy share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

pub(super) struct State {
    pub(super) target: u16,
    pub(super) door: Door,
    pub(super) is_listening: bool,
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) orders: Vec<Order>,
    pub(super) rewrite: Option<(&'static str, &'static str)>,
    pub(super) greeting: Option<Alter>,
    pub(super) sessions: Vec<Session>,
    pub(super) keeps_texts: bool,
    pub(super) asked: HashMap<Kind, usize>,
    pub(super) connections: Vec<Weak<Connection>>,
    /// Accepted and left alone.
    pub(super) silent: Vec<TcpStream>,
}

/// A fault that was ordered, and what became of it.
pub(super) struct Order {
    pub(super) kind: Kind,
    pub(super) fault: Fault,
    /// How many questions it is still for.
    pub(super) left: usize,
    pub(super) hits: usize,
    pub(super) may_go: bool,
    pub(super) reply: Vec<u8>,
}

/// The two sockets of a connection; an RST goes out when the last of its threads lets go of a dead one.
pub(super) struct Connection {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) number: usize,
    pub(super) course: Mutex<Course>,
}

/// Where a connection is.
#[derive(Default)]
pub(super) struct Course {
    pub(super) is_dead: bool,
    /// The order that the question which is being answered has met.
    pub(super) order: Option<(usize, Fault)>,
}

impl Shared {
    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.locked());
        self.changed.notify_all();
    }

    /// Waits until `condition` holds, which must be soon.
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

    /// Ends it for both sides. Only as a change of the state, or a thread that is about to wait for one would miss it.
    pub(super) fn end(&self, by_reset: bool) {
        self.course().is_dead = true;
        for socket in [&self.client, &self.server] {
            carry::abandon(socket, by_reset);
            // Wakes its thread and sends nothing.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}
