//! Acquires the lease with one statement, which grants the lease to at most one of any number of contenders.

use super::super::schema;
use super::database_id::{not_before, read_database};
use super::fence::{fence_transaction, passable};
use super::fragments::{
    CHANGED, HERE, NOT_PAUSED, READ_ONLY, SERVER_TIME, assignments, hex, highest_slot_token,
    owns_queue_lock, queue_lock_name, take_named_lock,
};
use super::handoff;
use super::history::{insert_run_from_row, is_unnecessary};
use super::queue::{Marks, is_behind};
use super::select::proof;
use crate::lease::OwnerId;
use crate::lease::action::Action;
use crate::mutant::{self, Safeguard};
use crate::store::{
    AcquireMode, AcquireRequest, Contender, FenceMode, HistoryOutcome, QueueLock, Version,
    WaitRequest,
};

/// Acquires the lease as `request` specifies. If the queue lock is available, the packet first tries to take it, unless
/// the attempt is a take-over or follows a wait for the queue lock (`after_wait`).
///
/// In `dlock_lock`, the packet changes at most the row of `action`, with one UPDATE, so at most one of any number of
/// contenders is granted the lease. The packet ends with the [`proof`] of the grant. The absence of a changed row
/// proves nothing: another contender may hold the lease, or this process may already hold it because the server
/// received this packet twice.
///
/// If the queue lock is available, the UPDATE requires that this session owns it, so a new contender cannot overtake
/// the waiters. The UPDATE also requires that the row is free. For a take-over, the UPDATE requires instead that the
/// row still has the observed version, so that a lease that has been renewed since the observation is not taken over.
///
/// A take-over records the old holder's run as lost in the same transaction, unless the run is already recorded, the old
/// holder has handed off the lease, or this contender does not keep a history. A lease that was handed off is taken over
/// if the attempt failed, because the grant must advance the fence, and the server's clock was set forward. The INSERT locks
/// the row, so that the INSERT and the UPDATE read the same version of the row.
///
/// If the action has a fence, a grant advances the fence in the same transaction. The grant does not wait for the
/// fence. While a command's transaction has locked the fence, the UPDATE matches no row.
///
/// A take-over also deletes the queue entry with the old holder's owner id.
///
/// If the queue lock is available, the UPDATE of an attempt that is not a take-over also matches a row whose holder has
/// handed off the lease. With `--once`, the UPDATE does not match such a row, because a success of the old holder's run
/// could make this run unnecessary, and that success is not recorded before the release.
///
/// A recorded success that makes the run unnecessary prevents the UPDATE, but the UPDATE reads the successes as of its
/// own start. Therefore a contender that is granted the lease must read the successes again. After a wait, a contender
/// that finds such a success releases the queue lock immediately, so that the next waiter can continue.
///
/// The token is at least the server time in microseconds, so that it normally also increases when a backup is restored,
/// or when a fail-over loses the latest grants. It is also higher than every token that this contender has read.
///
/// If `in_order` is set, the UPDATE also requires that no live waiter came before this contender that does not wait for
/// the queue lock of this server. After a wait that does not let other waiters pass, the UPDATE requires too that no
/// earlier entry is marked. Both conditions are one look at the queue.
///
/// If this contender has read the record, the UPDATE requires that the database is the same, and that the row is not
/// older than that read. Otherwise, the holder of a grant that the database has lost may still run its command.
pub(super) fn exclusive(
    contender: &Contender,
    request: &AcquireRequest,
    after_wait: Option<&WaitRequest>,
) -> String {
    let name = queue_lock_name(&hex(contender.action.as_str()));
    // A wait for the queue lock has already read the database.
    let read_database = match request.last_read.and_then(|last| last.database) {
        Some(_) if after_wait.is_none() => read_database(),
        _ => String::new(),
    };
    let take = take_or_pass(contender, request, after_wait, &name);
    let fence = match request.mode {
        AcquireMode::TakeOver { fenced: true, .. } => FenceMode::Advance,
        _ => contender.fence,
    };
    let required = required(request, after_wait, &name);
    let conditions = format!("{NOT_PAUSED}{required}{}", passable(fence));
    let end_of_old = end_of_old_holder(contender, request.mode, &conditions);
    let update = update_row(contender, request, fence, &required);
    let (begin, commit) = match fence {
        FenceMode::Advance => fence_transaction(
            &contender.action,
            &format!("owner_id={}", hex(request.owner_id.bytes())),
        ),
        FenceMode::Unchanged if end_of_old.is_empty() => Default::default(),
        FenceMode::Unchanged => ("BEGIN;".to_owned(), "COMMIT;".to_owned()),
    };
    let (commit, changed) = match commit.is_empty() {
        // Each statement of the packet delays all waiters.
        true => (commit, "ROW_COUNT()"),
        false => (format!("SET {CHANGED}=ROW_COUNT();{commit}"), CHANGED),
    };
    let proof = proof(contender, changed, request);
    format!("{read_database}{take}{begin}{end_of_old}{update}{commit}{proof}")
}

/// Returns the statement before the transaction: takes the queue lock if it is free or, after a wait, releases it if a
/// success makes the run unnecessary. Empty for a take-over, and if neither is necessary.
pub(super) fn take_or_pass(
    contender: &Contender,
    request: &AcquireRequest,
    after_wait: Option<&WaitRequest>,
    name: &str,
) -> String {
    let waits = after_wait.is_some();
    match is_unnecessary(contender) {
        Some(is_unnecessary) if waits => format!(
            "DO IF(EXISTS(SELECT 1 FROM dlock_lock WHERE action={} AND {is_unnecessary}),\
             RELEASE_LOCK({name}),0);",
            hex(contender.action.as_str()),
        ),
        _ if waits || request.is_take_over() || request.queue_lock == QueueLock::Unavailable => {
            String::new()
        }
        _ => format!("DO {};", take_named_lock(name, 0)),
    }
}

/// Returns the statements of a take-over that record the old holder's run as lost, and remove the old holder's queue
/// entry. `conditions` are the conditions of the grant, except for the version. Empty for another attempt.
pub(super) fn end_of_old_holder(
    contender: &Contender,
    mode: AcquireMode,
    conditions: &str,
) -> String {
    let AcquireMode::TakeOver { version, .. } = mode else {
        return String::new();
    };
    let action = &contender.action;
    let taken_over = format!(
        "owner_id IS NOT NULL AND {} AND {conditions}",
        seen(version)
    );
    // The run of a revoked lease is already recorded, and a holder that has handed off its lease records its run.
    let handed_off = handoff::handoff_is_set();
    let unrecorded = format!(
        "min_hold=0 AND revoked_at IS NULL AND NOT COALESCE({handed_off},0) AND {taken_over}"
    );
    let record = match contender.history {
        0 => String::new(),
        _ => insert_run_from_row(
            "dlock_lock",
            HistoryOutcome::Lost,
            &format!("action={} AND {unrecorded}", hex(action.as_str())),
        ),
    };
    format!(
        "{record}DELETE FROM dlock_waiter WHERE owner_id=(SELECT owner_id FROM dlock_lock \
         WHERE action={} AND {taken_over});",
        hex(action.as_str()),
    )
}

/// Returns the condition that the row still has the `version` that was observed.
pub(super) fn seen(version: Version) -> String {
    let Version { token, renewals } = version;
    format!("token={token} AND renewals={renewals}")
}

/// Returns the UPDATE that grants the lease if all conditions hold.
fn update_row(
    contender: &Contender,
    request: &AcquireRequest,
    fence: FenceMode,
    required: &str,
) -> String {
    let fenced = match fence {
        FenceMode::Advance => "fenced=1,",
        FenceMode::Unchanged => "",
    };
    let accepts_hand_off = request.queue_lock == QueueLock::Available && contender.once.is_none();
    let expected = match request.mode {
        AcquireMode::TakeOver { version, .. } => seen(version),
        AcquireMode::First | AcquireMode::IfFree if accepts_hand_off => {
            format!("(owner_id IS NULL OR {})", handoff::handoff_is_set())
        }
        AcquireMode::First | AcquireMode::IfFree | AcquireMode::AmongSlots { .. } => {
            "owner_id IS NULL".to_owned()
        }
    };
    let not_done = is_unnecessary(contender)
        .map_or_else(String::new, |condition| format!(" AND NOT {condition}"));
    format!(
        "UPDATE dlock_lock SET {fenced}token={next_token},{lease} \
         WHERE action={action} AND {version}{required} AND {expected} AND {NOT_PAUSED}{not_done}{passable};",
        next_token = next_token(request, None),
        lease = lease(
            contender,
            request.owner_id,
            request.queue_lock,
            "has_queue_lock=1"
        ),
        action = hex(contender.action.as_str()),
        // Also needed after a wait, because the tables may have been upgraded since the first attempt.
        version = schema::current().accepts_tables(),
        passable = passable(fence),
    )
}

/// Returns the expression for the token of a grant. `slots_of` is the action if the record may be shared.
pub(super) fn next_token(request: &AcquireRequest, slots_of: Option<&Action>) -> String {
    let highest = request.last_read.map_or_else(String::new, |last| {
        format!(",{}", last.highest_token.0.saturating_add(1))
    });
    let in_slots = slots_of.map_or_else(String::new, |action| {
        format!(",{}+1", highest_slot_token(action))
    });
    format!("GREATEST(token+1,{SERVER_TIME}{highest}{in_slots})")
}

/// Returns the assignments of a new lease of `contender`, except for the token. `has_lock` is the assignment that records
/// that its session has the lock that proves its life.
pub(super) fn lease(
    contender: &Contender,
    owner_id: OwnerId,
    queue_lock: QueueLock,
    has_lock: &str,
) -> String {
    let has_lock = match queue_lock {
        QueueLock::Available => has_lock,
        QueueLock::Unavailable => "has_queue_lock=0",
    };
    format!(
        "owner_id={owner_id},{facts},server={HERE},session_id=CONNECTION_ID(),{has_lock},\
         ttl_us={ttl_us},renewals=0,min_hold=0,revoked_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL",
        owner_id = hex(owner_id.bytes()),
        facts = assignments(&contender.holder),
        ttl_us = contender.ttl.as_micros(),
    )
}

/// Returns the conditions of a grant, which begin with AND, that depend on the queue lock `name`, the server and the queue.
pub(super) fn required(
    request: &AcquireRequest,
    after_wait: Option<&WaitRequest>,
    name: &str,
) -> String {
    let requires_queue_lock = match request.queue_lock {
        QueueLock::Available if !mutant::is_disabled(Safeguard::OwnClock) => {
            format!(" AND {}", owns_queue_lock(name))
        }
        QueueLock::Available | QueueLock::Unavailable => String::new(),
    };
    // All waiters wait for this packet, so it has no separate check that the server accepts writes.
    let accepts_writes = match after_wait {
        Some(_) => format!(" AND NOT {READ_ONLY}"),
        None => String::new(),
    };
    format!(
        "{requires_queue_lock}{accepts_writes}{}{}",
        not_before(request.last_read),
        in_order(request, after_wait)
    )
}

/// Returns the condition that no waiter came first that the queue lock does not order, if `request` has this condition.
fn in_order(request: &AcquireRequest, after_wait: Option<&WaitRequest>) -> String {
    if !request.in_order {
        return String::new();
    }
    let marks = match after_wait {
        Some(wait) if !wait.lets_pass && wait.room.is_none() => Marks::After(wait.let_pass),
        _ => Marks::Ignored,
    };
    let is_behind = is_behind("dlock_lock", request.owner_id, request.mode, marks);
    format!(" AND NOT {is_behind}")
}
