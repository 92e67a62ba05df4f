//! The events of an `exec`: everything that the event loop receives while a lease is acquired, held or released.

pub mod address_reader;
pub mod background_read;
pub mod connections;
pub mod database;
pub mod event_loop;
pub mod heartbeat;
pub mod input;
pub mod queue;
pub mod queue_reader;

use std::fmt;
use std::io;

use crate::metrics::writer;
use crate::process::hook::{HookResult, HookTrigger};
use crate::process::monitor::ParentMessage;
use crate::store::connected::ConnectedServer;
use crate::store::session::CommandConnections;
use crate::store::{LockRecord, TimedResponse};
use crate::sys::signal::Signal;

/// An event of the event loop.
#[derive(Debug)]
pub enum Event {
    /// This process received a signal.
    Signal(Signal),
    /// The monitor sent a message.
    Monitor(ParentMessage),
    /// The connections of the command to dlock's server have changed. Contains the present connections.
    Connections(CommandConnections),
    /// The command's heartbeat file has changed.
    Heartbeat,
    /// The command's heartbeat file cannot be read. Contains the error number. A [`Event::Heartbeat`] follows if the file
    /// can be read again.
    HeartbeatUnreadable(i32),
    /// Something that ends a hold, or the wait for it, has ended.
    InputEnded(HoldInput),
    /// The state file of a hold cannot be written.
    StateFile(io::Error),
    /// A hook has ended, or was not started. Contains the result.
    Hook(HookTrigger, HookResult),
    /// The metrics thread sent a notification.
    Metrics(writer::Note),
    /// An event of the lease with this number.
    Lease(usize, LeaseEvent),
}

/// Something whose end ends a hold or the wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldInput {
    /// Stdin.
    Stdin,
    /// The process of `--pid`. Contains its id.
    Ward(u32),
    /// The dlock in a shell that passes the grant on. Its end after the grant ends nothing.
    Front,
}

impl fmt::Display for HoldInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("stdin"),
            Self::Ward(pid) => write!(f, "process {pid}"),
            Self::Front => f.write_str("the dlock in the shell"),
        }
    }
}

/// An event of one lease.
#[derive(Debug)]
pub enum LeaseEvent {
    /// The database thread has opened a connection.
    Connected(Box<ConnectedServer>),
    /// The server closed the connection while no request was in flight.
    Disconnected,
    /// A read for a reminder of a waiter has ended. Contains the response or the failure.
    QueueRead(Box<TimedResponse>),
    /// A read over a new connection to dlock's address has ended. Contains the record. None if the read failed, or if the
    /// server is read-only.
    AddressRead(Option<Box<LockRecord>>),
    /// The database thread has handled a request. Contains the response or the failure.
    Response(Box<TimedResponse>),
}
