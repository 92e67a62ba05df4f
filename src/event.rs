//! What can happen while a lease is wanted or held: everything that reaches the one loop of `exec`.

pub mod queue;

use crate::hook::{HookResult, Occasion};
use crate::metrics::writer;
use crate::monitor::Word;
use crate::store::Reply;
use crate::sys::signal::Signal;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A signal reached us.
    Signal(Signal),
    /// The monitor said something.
    Monitor(Word),
    /// The command has shown that it is alive.
    Heartbeat,
    /// A hook is over.
    Hook(Occasion, HookResult),
    /// What became of the file of metrics.
    Metrics(writer::Note),
    /// The server has ended the connection while nothing was asked.
    HungUp,
    /// The database thread has a reply to the last question.
    Reply(Box<Reply>),
}
