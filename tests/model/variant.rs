//! What a run of the model is about: how the client is broken, if it is, and what goes wrong around
//! it, up to which bounds.

use crate::server::Rules;
use crate::time::Tick;

/// The protocol, or one way to get it wrong. The machines are the real ones in all of them; what
/// is fed into them or done with what they say is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As it is.
    Sound,
    /// The deadline counts from the reply.
    DeadlineFromReply,
    /// A connection is used on after an error, and the late reply of one question is taken for the
    /// reply to the next.
    ConnectionKept,
    /// The claim is not read back: an attempt or a renewal that brought no error is believed.
    OkBelieved,
    /// An operator's release frees the row at once, while the command runs.
    FreedByHand,
    /// A grant counts, whichever attempt it was that made it: also one that was sent long ago, and of
    /// which an error said that it was not carried out (R1).
    OldGrantBelieved,
    /// What is read back is ours by its claim, also when an operator has ended the lease (R2).
    RevokedIsOurs,
    /// A command that ends with 0 makes a success, whatever its dlock was told of the lease (R4).
    EndBelieved,
    /// A release counts if any of its statements changed anything (R9).
    SumBelieved,
    /// Messages that nobody reads hold up the process that renews (R3).
    BlockedByMessages,
    /// No monitor: the process that talks to the server also stops the command.
    NoMonitor,
    /// The command is started without another look at the clock.
    BlindStart,
    /// Killing starts when the lease ends.
    NoMargin,
    /// The lease is given up when the command is told to stop, not when its tree is dead.
    EarlyRelease,
}

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// A process is killed, a front is stopped, a waiter's user has enough, a connection breaks, stalls
    /// or cannot be made, a request is executed twice, the server restarts.
    All,
    /// A front is stopped, a connection breaks or stalls: what finds most broken variants.
    Halts,
    /// A front is stopped or a waiter's user has enough: what leaves connections alone.
    Delays,
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) variant: Variant,
    pub(crate) rules: Rules,
    /// The last tick.
    pub(crate) horizon: Tick,
    /// How many dlock processes each client runs, one after another.
    pub(crate) lives: [u8; 2],
    /// How many faults, of any kind and at any moment.
    pub(crate) faults: u8,
    pub(crate) kinds: Kinds,
    /// By how many ticks the server's clock may be set at any moment, each once.
    pub(crate) steps: &'static [i8],
    /// How often an operator may end a lease, at any moment.
    pub(crate) breaks: u8,
}

impl Run {
    /// The protocol as it is, on a server as it should be.
    pub(crate) const fn sound() -> Self {
        Self {
            variant: Variant::Sound,
            rules: Rules {
                no_gate: false,
                clock_alone: false,
                gate_alone: false,
                revoked_is_ours: false,
                session_stays: false,
            },
            horizon: 9,
            lives: [1, 1],
            faults: 2,
            kinds: Kinds::All,
            steps: &[],
            breaks: 0,
        }
    }
}
