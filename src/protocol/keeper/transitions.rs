//! All changes of a keeper's phase, as one table. ARCHITECTURE.md shows it. The keeper checks each change against it in
//! builds with debug assertions, so the model and the tests would find a change that is missing here.

use self::PhaseKind::{Acquiring, EndingEarlier, EndingOwn, Held, Over, Releasing};

/// Where a lease is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PhaseKind {
    /// The contender wants the lease.
    Acquiring,
    /// The lease is held. The sessions of an earlier run have to end before the work starts.
    EndingEarlier,
    /// The work may run.
    Held,
    /// The work has ended. Its sessions have to end before the release.
    EndingOwn,
    /// The lease, or what may have been granted, is released.
    Releasing,
    /// Nothing is left to do.
    Over,
}

/// A change of phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The phase before.
    pub from: PhaseKind,
    /// The cause of the change.
    pub cause: &'static str,
    /// The phase afterwards.
    pub to: PhaseKind,
    /// The notices that report it.
    pub notices: &'static str,
}

/// All changes of phase.
pub const TRANSITIONS: [Transition; 12] = [
    row(
        Acquiring,
        "The lease is granted, and the record contains no sessions of an earlier run.",
        Held,
        "Granted, Ready",
    ),
    row(
        Acquiring,
        "The lease is granted, and the record contains sessions of an earlier run.",
        EndingEarlier,
        "Granted",
    ),
    row(
        Acquiring,
        "The time limit has passed, the server refuses, a success is recorded, or the caller gives up; a lease may have been \
         granted, or a queue entry may exist.",
        Releasing,
        "NotGranted (none if the caller gives up)",
    ),
    row(
        Acquiring,
        "The same, and nothing has to be released.",
        Over,
        "NotGranted (none if the caller gives up)",
    ),
    row(
        EndingEarlier,
        "The sessions of the earlier run have ended.",
        Held,
        "SessionsEnded, Ready",
    ),
    row(
        EndingEarlier,
        "The time limit has passed, the lease has ended or is lost, or the caller gives up.",
        Releasing,
        "SessionsNotEnded",
    ),
    row(
        Held,
        "The work has ended, and its sessions have to end or are looked for.",
        EndingOwn,
        "none",
    ),
    row(
        Held,
        "The work has ended without sessions, or may leave them.",
        Releasing,
        "none",
    ),
    row(
        Held,
        "The caller gives up before the work has started.",
        Releasing,
        "none",
    ),
    row(
        EndingOwn,
        "The sessions of the work have ended, the lease has ended or is lost, the look has timed out, or the caller gives up.",
        Releasing,
        "SessionsEnded, SessionsNotEnded, Executing or none",
    ),
    row(
        Releasing,
        "The server has released the lease, or this process was not its holder.",
        Over,
        "Released",
    ),
    row(
        Releasing,
        "The time limit has passed, or the caller gives up.",
        Over,
        "NotReleased",
    ),
];

const fn row(
    from: PhaseKind,
    cause: &'static str,
    to: PhaseKind,
    notices: &'static str,
) -> Transition {
    Transition {
        from,
        cause,
        to,
        notices,
    }
}

/// Returns true if the table contains a change from `from` to `to`, or if the phase stays.
pub(super) fn is_allowed(from: PhaseKind, to: PhaseKind) -> bool {
    from == to
        || TRANSITIONS
            .iter()
            .any(|row| (row.from, row.to) == (from, to))
}
