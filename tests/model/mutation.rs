//! The parameters of a run of the model: the broken rule, if any, the kinds of faults and their limits.

use crate::server::Rules;
use crate::time::Tick;

/// The protocol, or the protocol with one broken rule. All variants use the real state machines; their input, or the
/// use of their output, is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The protocol without a broken rule.
    Sound,
    /// The deadline counts from the response instead of the request.
    DeadlineFromReply,
    /// A connection is reused after an error, so the late response to one request is taken for the response to the
    /// next.
    ConnectionKept,
    /// The owner id is not read back: an attempt or a renewal without an error counts as successful.
    OkBelieved,
    /// An operator's release frees the row at once, while the command runs.
    FreedByHand,
    /// A grant counts whichever attempt made it, including one that was sent long ago and returned an error (R1).
    OldGrantBelieved,
    /// A row with this client's owner id counts as held even if an operator has revoked the lease (R2).
    RevokedIsHeld,
    /// A command that exits with 0 counts as a success even if its lease was reported lost or revoked (R4).
    EndBelieved,
    /// A release counts as done if any of its statements changed a row (R9).
    SumBelieved,
    /// Unread messages block the process that renews (R3).
    BlockedByMessages,
    /// No monitor: the process that talks to the server also stops the command.
    NoMonitor,
    /// The command is started without another check of the clock.
    BlindStart,
    /// Killing starts when the lease ends.
    NoMargin,
    /// The lease is released when the command is asked to stop, not when its tree is dead.
    EarlyRelease,
}

/// The kinds of faults that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// A process is killed, a parent is stopped, a waiter gives up, a connection breaks, stalls or cannot be made, a
    /// request is executed twice, the server restarts.
    All,
    /// A parent is stopped, a connection breaks or stalls. These faults detect most broken variants.
    Halts,
    /// A parent is stopped or a waiter gives up. These faults do not affect connections.
    Delays,
}

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) variant: Variant,
    pub(crate) rules: Rules,
    /// The last tick.
    pub(crate) horizon: Tick,
    /// Number of dlock processes that each client runs, one after another.
    pub(crate) lives: [u8; 2],
    /// Maximum number of faults, of any kind and at any time.
    pub(crate) faults: u8,
    pub(crate) kinds: Kinds,
    /// Numbers of ticks by which the server's clock may be set, each once, in this order and at any time.
    pub(crate) steps: &'static [i8],
    /// Maximum number of revoked leases, at any time.
    pub(crate) breaks: u8,
}

impl Run {
    /// Returns the parameters of the unbroken protocol on a correct server.
    pub(crate) const fn sound() -> Self {
        Self {
            variant: Variant::Sound,
            rules: Rules {
                no_queue_lock: false,
                clock_alone: false,
                queue_lock_alone: false,
                revoked_is_held: false,
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
