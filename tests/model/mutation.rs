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

#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is an independent part of a run"
)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) variant: Variant,
    pub(crate) rules: Rules,
    /// The last tick of the run.
    pub(crate) horizon: Tick,
    /// Maximum number of dlock processes of each client. A client runs one process at a time.
    pub(crate) processes: [u8; 2],
    /// Maximum number of faults. A fault can have any of the kinds and happen at any time.
    pub(crate) faults: u8,
    pub(crate) kinds: FaultKinds,
    /// Clock jumps of the server, in ticks. The jumps happen in this order, each at any time and at most once.
    pub(crate) clock_steps: &'static [i8],
    /// Maximum number of leases that an operator revokes. The operator can revoke a lease at any time.
    pub(crate) revocations: u8,
    /// Maximum number of times that an operator removes the row while nobody uses it.
    pub(crate) prunes: u8,
    /// Maximum number of statements that commands start on the server.
    pub(crate) statements: u8,
    /// How the database loses its latest writes.
    pub(crate) lost_writes: LostWrites,
    /// True if dlock reads the record over a new connection: a contender before its command starts, and a holder while it
    /// runs. A read that fails, or that shows a record without the lease although the lease exists, is a fault.
    pub(crate) checks_address: bool,
    /// True if waiters read the record for reminders, on another connection. The database then loses no grant that a
    /// waiter has not read.
    pub(crate) reminders: bool,
    /// The limit of a third client that has a lease at the start. It ends at any time. None if there is no such client.
    pub(crate) earlier_holder: Option<Limit>,
    /// What each client does with the sessions of its command.
    pub(crate) policies: [SessionPolicy; 2],
    /// True if each command runs with `--once`. A command may then fail.
    pub(crate) once: bool,
    /// The limit of each client's leases.
    pub(crate) limits: [Limit; 2],
    /// True if each client is a `dlock hold`, so each command is a program that dlock cannot stop: it compares the published
    /// deadline with its clock, and notices neither the loss of the lease nor the death of dlock.
    pub(crate) holds: bool,
    /// True if a process that was granted the lease may wait for other locks before it starts its command.
    pub(crate) waits_for_others: bool,
}

impl Run {
    /// Returns the parameters of the unbroken protocol on a correct server.
    pub(crate) const fn sound() -> Self {
        Self {
            variant: Variant::Sound,
            rules: Rules::NONE,
            horizon: 9,
            processes: [1, 1],
            faults: 2,
            kinds: FaultKinds::All,
            clock_steps: &[],
            revocations: 0,
            prunes: 0,
            statements: 0,
            lost_writes: LostWrites::Never,
            checks_address: false,
            reminders: false,
            earlier_holder: None,
            policies: [SessionPolicy::Ignore; 2],
            once: false,
            limits: [Limit::ONE; 2],
            holds: false,
            waits_for_others: false,
        }
    }
}

/// Defines for each field a method that returns the run with another value in this field.
macro_rules! setters {
    ($($field:ident: $value:ty,)*) => {
        impl Run {
            $(pub(crate) const fn $field(self, $field: $value) -> Self {
                Self { $field, ..self }
            })*
        }
    };
}

setters! {
    variant: Variant,
    horizon: Tick,
    processes: [u8; 2],
    faults: u8,
    kinds: FaultKinds,
    clock_steps: &'static [i8],
    revocations: u8,
    prunes: u8,
    statements: u8,
    lost_writes: LostWrites,
    checks_address: bool,
    reminders: bool,
    earlier_holder: Option<Limit>,
    policies: [SessionPolicy; 2],
    once: bool,
    limits: [Limit; 2],
    holds: bool,
    waits_for_others: bool,
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
