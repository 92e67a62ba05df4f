//! The parameters of a run of the model: the broken rule if there is one, the kinds of faults, and the limits of faults
//! and time.

use dlock::lease::limit::Limit;
use dlock::store::session::SessionPolicy;

use crate::server::{Rule, Rules};
use crate::time::Tick;

/// The protocol, or the protocol with one broken rule. All variants use the real state machines. A broken variant gives
/// them wrong input or misuses their output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Sound,
    /// The deadline is measured from the response instead of from the request.
    DeadlineFromResponse,
    /// A connection is reused after an error. The late response to one request is then read as the response to the next
    /// request.
    ConnectionReused,
    /// The owner id is not read back: an attempt or a renewal without an error counts as successful.
    OwnerIdNotReadBack,
    /// An operator's release frees the row immediately, while the command still runs.
    FreedByOperator,
    /// A grant is accepted even if it was made by an old attempt that returned an error.
    OldGrantTrusted,
    /// A row with the client's owner id counts as held even if an operator has revoked the lease.
    RevokedIsHeld,
    /// A command that exits with 0 counts as a success even if its lease was reported lost or revoked.
    ExitStatusTrusted,
    /// A release counts as done if any of its statements changed a row.
    ChangedRowsTrusted,
    /// Unread messages block the process that renews.
    BlockedByMessages,
    /// There is no monitor. The process that talks to the server also stops the command.
    NoMonitor,
    /// Nothing kills the command if the monitor is killed: the kernel does not kill a process that the monitor has not started
    /// (`dlock hold --pid`), and the parent does not do it either.
    SurvivesMonitor,
    /// The command is started without a check of the deadline.
    StartWithoutClockCheck,
    /// The command is not killed until the lease expires.
    NoMargin,
    /// The lease is released when the monitor starts to stop the command, not when the process tree is dead.
    EarlyRelease,
    /// `dlock hold` releases a lost lease although the program may not have stopped.
    ReleasedAtLoss,
    /// After the death of the parent, the monitor releases the lease before the process tree is dead.
    ReleasedBeforeDeath,
    /// A contender does not wait for the statements of an earlier run.
    EarlierStatementsIgnored,
    /// A release removes the noted sessions although their statements may not have ended, for example after a signal.
    NoteRemovedTooEarly,
    /// A contender does not notice that another database responds.
    DatabaseIgnored,
    /// A record that was read for a reminder is only displayed.
    RemindersForgotten,
    /// With `--once`, a contender that is granted the lease ignores a success that was recorded after it had read the
    /// successes.
    SuccessAfterReadIgnored,
    /// A release that finds no lease counts as failed.
    LossForgotten,
    /// A release that the server refuses because of the history is repeated with the history.
    HistoryRequired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKinds {
    /// All kinds: a process is killed, a parent is stopped, a waiter gives up, a connection breaks, stalls or cannot be
    /// opened, a request is executed twice, an executed request returns an error, or the server restarts.
    All,
    /// A parent is stopped, or a connection breaks or stalls. These faults are enough to detect most broken variants.
    StopsAndStalls,
    /// A connection breaks, or a waiter gives up.
    Breaks,
    /// A process is killed, a parent is stopped, a waiter gives up, or the server restarts. No other fault affects
    /// connections.
    Deaths,
    Quits,
    /// The server executes a renewal twice, or a waiter gives up.
    LateRenewals,
    /// A parent is stopped, or a waiter gives up. These faults do not affect connections.
    StopsAndQuits,
}

/// The way in which the database loses its latest writes, once and at any time. All writes since one earlier time are
/// lost, and all sessions end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostWrites {
    Never,
    /// The identity of the database changes: a replica that lacks the writes replaces the server, or the server starts
    /// again with an older state of its files.
    FailOver,
    /// The identity of the database stays: a backup of a whole cluster is restored, or tables are restored while the
    /// server runs.
    Restore,
}

/// Defines [`Run`] with the values of [`Run::sound`], and for each field a method that returns the run with another value
/// in this field.
macro_rules! run {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $value:expr,)*) => {
        #[allow(clippy::struct_excessive_bools, reason = "each flag is an independent part of a run")]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Run {
            pub(crate) rules: Rules,
            $($(#[$doc])* pub(crate) $field: $type,)*
        }

        impl Run {
            /// Returns the parameters of the unbroken protocol on a correct server.
            pub(crate) const fn sound() -> Self {
                Self { rules: Rules::NONE, $($field: $value,)* }
            }

            $(pub(crate) const fn $field(self, $field: $type) -> Self {
                Self { $field, ..self }
            })*
        }
    };
}

run! {
    variant: Variant = Variant::Sound,
    /// The last tick of the run.
    horizon: Tick = 9,
    /// Maximum number of dlock processes of each client. A client runs one process at a time.
    processes: [u8; 2] = [1, 1],
    /// Maximum number of faults. A fault can have any of the kinds and happen at any time.
    faults: u8 = 2,
    kinds: FaultKinds = FaultKinds::All,
    /// Clock jumps of the server, in ticks. The jumps happen in this order, each at any time and at most once.
    clock_steps: &'static [i8] = &[],
    /// Maximum number of leases that an operator revokes. The operator can revoke a lease at any time.
    revocations: u8 = 0,
    /// Maximum number of times that an operator removes the row while nobody uses it.
    prunes: u8 = 0,
    /// Maximum number of statements that commands start on the server.
    statements: u8 = 0,
    /// How the database loses its latest writes.
    lost_writes: LostWrites = LostWrites::Never,
    /// True if dlock reads the record over a new connection: a contender before its command starts, and a holder while it
    /// runs. A read that fails, or that shows a record without the lease although the lease exists, is a fault.
    checks_address: bool = false,
    /// True if waiters read the record for reminders, on another connection. The database then loses no grant that a
    /// waiter has not read.
    reminders: bool = false,
    /// The limit of a third client that has a lease at the start. It ends at any time. None if there is no such client.
    earlier_holder: Option<Limit> = None,
    /// What each client does with the sessions of its command.
    policies: [SessionPolicy; 2] = [SessionPolicy::Ignore; 2],
    /// True if each command runs with `--once`. A command may then fail.
    once: bool = false,
    /// The limit of each client's leases.
    limits: [Limit; 2] = [Limit::ONE; 2],
    /// True if each client is a `dlock hold`, so each command is a program that dlock cannot stop: it compares the published
    /// deadline with its clock, and notices neither the loss of the lease nor the death of dlock.
    holds: bool = false,
    /// True if a process that was granted the lease may wait for other locks before it starts its command.
    waits_for_others: bool = false,
    /// The events that the search must find.
    events: &'static [&'static str] = &[],
}

impl Run {
    /// Returns the run on a server with `rule`, in addition to the rules that it has.
    pub(crate) const fn rule(self, rule: Rule) -> Self {
        Self {
            rules: self.rules.and(rule),
            ..self
        }
    }
}
