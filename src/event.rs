//! What can happen while a lease is wanted or held: everything that reaches the one loop of `exec`.

use crate::store::Reply;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A signal reached us.
    Signal(Signal),
    /// The database thread has a reply to the last question.
    Reply(Box<Reply>),
}

/// A signal as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Where it came from.
    pub origin: Origin,
}

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel: for Ctrl-C, Ctrl-\ and a lost line this is the terminal, which has sent it to
    /// every process of the foreground group.
    Kernel,
    /// Some process, to us.
    Process,
}
