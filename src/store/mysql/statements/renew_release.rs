//! Renews and releases the lease, on the condition that this process still holds the lease.

use super::super::schema;
use super::create_row::create_row;
use super::fence::{fence_transaction, passable};
use super::fragments::{
    CHANGED, HERE, NOT_PAUSED, REQUEST, SLOTS, assignments, hex, holder_lock_name, owns_queue_lock,
    queue_lock_name, take_named_lock,
};
use super::handoff;
use super::history::{
    insert_run, insert_run_from_row, is_recorded, prune_history, recorded_outcome,
};
use super::queue::leave_queue;
use super::slots::{free_shared_record, lease_lock_name, lock_record, reassert, table};
use crate::lease::action::Action;
use crate::lease::{OwnerId, Token};
use crate::store::session::FoundSessions;
use crate::store::{
    Contender, Failure, FenceMode, HistoryOutcome, QueueLock, ReleaseRequest, RenewRequest,
    RunRecord,
};

/// Returns the condition that a row belongs to `action` and contains `owner_id`. A revoked lease counts too.
fn has_owner_id(action: &Action, owner_id: OwnerId) -> String {
    let action = hex(action.as_str());
    format!("action={action} AND owner_id={}", hex(owner_id.bytes()))
}

/// Returns the condition that `owner_id` holds the lease under `token`.
/// [`is_held_by`](crate::store::LockRecord::is_held_by) is the same condition for a record that was read.
fn is_holder(action: &Action, owner_id: OwnerId, token: Token) -> String {
    let has_owner_id = has_owner_id(action, owner_id);
    format!("{has_owner_id} AND token={token} AND revoked_at IS NULL")
}

/// Extends the lease, and writes this session into the row. Changes the row only if this process still holds the lease.
/// A lease that has expired by the server's clock can still be renewed. The condition does not depend on earlier
/// renewals, so a renewal whose response was lost can be retried. [`CHANGED`] contains the number of changed rows.
///
/// If this session does not own the queue lock, it tries to take the queue lock. The packet records in the row if this
/// session owns the queue lock, because a contender that is then granted the queue lock knows that the session has
/// ended. It does the same with the holder lock, for which followers of the leader wait.
///
/// `look` contains the sessions of the command, which the packet writes into the row. If it is None or a failure, the
/// sessions in the row do not change.
///
/// With a reassertion, the packet instead writes the grant to a row that has lost it. It changes the row only if the token
/// is smaller than the token of the grant, no command can run under a lease in the row, and the action is not paused. One
/// UPDATE tests this and writes the grant, so no other contender can be granted the lease in between. If the packet
/// arrives late or twice, the token in the row is no longer smaller. If the action has a fence, the packet also advances
/// the fence, in the same transaction and under the same condition as a grant. A row that is missing is created first. A
/// lease in a slot is [written to its slot](reassert).
pub(in crate::store::mysql) fn renew(
    contender: &Contender,
    request: &RenewRequest,
    look: Option<&Result<FoundSessions, Failure>>,
) -> String {
    let RenewRequest {
        grant, queue_lock, ..
    } = *request;
    let action = &contender.action;
    let sessions = match look {
        Some(Ok(found)) => {
            let note = found.note.as_ref();
            let note = note.map_or_else(|| "NULL".to_owned(), |note| hex(note.to_text()));
            format!(",sessions={note}")
        }
        Some(Err(_)) | None => String::new(),
    };
    let name = lease_lock_name(contender, grant.owner_id);
    let holder_lock = holder_lock_name(&hex(grant.owner_id.bytes()));
    let take_holder_lock = match contender.limit.is_exclusive() {
        true => format!(",{}", take_named_lock(&holder_lock, 0)),
        false => String::new(),
    };
    let (take, has_queue_lock) = match queue_lock {
        QueueLock::Available => (
            format!("DO {}{};", take_named_lock(&name, 0), take_holder_lock),
            format!("COALESCE({},0)", owns_queue_lock(&name)),
        ),
        QueueLock::Unavailable => (String::new(), "0".to_owned()),
    };
    let fenced = request
        .reassertion
        .map_or(FenceMode::Unchanged, |lost| match lost.fenced {
            true => FenceMode::Advance,
            false => contender.fence,
        });
    let (begin, commit) = match fenced {
        FenceMode::Advance => fence_transaction(action, &has_owner_id(action, grant.owner_id)),
        FenceMode::Unchanged => Default::default(),
    };
    // A database that has lost the grant may have lost the whole row.
    let create = request.reassertion.map(|_| create_row(action));
    let create = create.unwrap_or_default();
    let (facts, condition) = match request.reassertion {
        None => (
            "renewals=renewals+1".to_owned(),
            // A lease whose command has ended must not be extended by a late renewal.
            format!(
                "{} AND min_hold=0",
                is_holder(action, grant.owner_id, grant.token)
            ),
        ),
        Some(lost) => (
            lost_facts(contender, request, lost.renewals, fenced),
            lost_grant(action, grant.token, fenced),
        ),
    };
    let lease = format!(
        "{facts},server={HERE},session_id=CONNECTION_ID(),has_queue_lock={has_queue_lock},renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {} MICROSECOND{sessions}",
        contender.ttl.as_micros(),
    );
    let change = match request.reassertion {
        Some(_) if !contender.limit.is_exclusive() => reassert(contender, grant, &lease),
        _ => format!(
            "{begin}UPDATE {} SET {lease} WHERE {condition};SET {CHANGED}=ROW_COUNT();{commit}",
            table(contender)
        ),
    };
    format!("{take}{create}{change}")
}

/// Returns the columns of a lost grant that a renewal does not change. The time of the grant is not known to this server,
/// so it is the present time.
fn lost_facts(
    contender: &Contender,
    request: &RenewRequest,
    renewals: u64,
    fence: FenceMode,
) -> String {
    let fenced = match fence {
        FenceMode::Advance => "fenced=1,",
        FenceMode::Unchanged => "",
    };
    format!(
        "{fenced}token={},owner_id={},{},ttl_us={},renewals={renewals},min_hold=0,revoked_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),released_at=NULL",
        request.grant.token,
        hex(request.grant.owner_id.bytes()),
        assignments(&contender.holder),
        contender.ttl.as_micros(),
    )
}

/// Returns the condition that the row of `action` has lost the grant with `token`, and that its holder may write the grant
/// again. [`can_reassert`](crate::store::lost_grant::can_reassert) is the same condition for a record that was read.
fn lost_grant(action: &Action, token: Token, fence: FenceMode) -> String {
    format!(
        "action={} AND {} AND token<{token} AND (owner_id IS NULL OR min_hold=1) AND {NOT_PAUSED}{}",
        hex(action.as_str()),
        schema::current().accepts_tables(),
        passable(fence),
    )
}

/// Frees the row if this process still holds the lease. If `keep` is set, the row instead stays held for that
/// duration, which is the rest of `--min-hold`. Records the run in the same transaction. About one release in
/// `PRUNE_INTERVAL` also prunes the history, after the commit. If the request has no token, frees the row of the action
/// if it contains the owner id.
///
/// The queue lock is normally released as soon as the row is changed, so that the next waiter can continue. When the
/// waiter's UPDATE reaches the row, the row lock blocks the UPDATE until the commit or the rollback. So the waiter's
/// round trip and the commit overlap. With `--once`, the queue lock is released only after the commit, because the
/// success of this run may make the waiter's run unnecessary, and the waiter must read that success. If a hand-off has
/// already released the queue lock, the packet releases the queue lock again after the commit.
///
/// If no row was changed, either this process did not hold the lease, or the server has already executed this packet,
/// or, after a hand-off, the row already contains the next holder. In the third case, the token of the row is larger
/// than the token of the lease, unless an operator has changed the row with SQL. Only a hand-off on the same server,
/// `handed_off_on`, explains a larger token: on another server, a contender may have been granted a lease while the
/// command was running. `handed_off_on` is None only if no hand-off was sent. The result contains the `changed`
/// flag, the lease that still exists, if any, and the recorded success and outcome.
pub(in crate::store::mysql) fn release(
    contender: &Contender,
    request: &ReleaseRequest,
    handed_off_on: Option<&str>,
) -> String {
    let ReleaseRequest {
        owner_id, token, ..
    } = *request;
    let action = &contender.action;
    let (held, left) = match token {
        // `left` matches a lease that must not exist after the release, and a lease that an operator has revoked.
        Some(token) => (
            is_holder(action, owner_id, token),
            format!("token={token} OR revoked_at IS NOT NULL"),
        ),
        None => (has_owner_id(action, owner_id), "TRUE".to_owned()),
    };
    let granted_again = granted_again(contender, request);
    let handed_off_here = match (request.handed_off, handed_off_on) {
        (false, _) => "0".to_owned(),
        (true, Some(server)) => format!("{HERE}={}", hex(server)),
        (true, None) => "1".to_owned(),
    };
    let passed_on = format!("({handed_off_here} AND {granted_again})");
    let is_success = request.run.is_some_and(|run| run.outcome.is_success());
    let is_exclusive = contender.limit.is_exclusive();
    let (pass_early, pass_late) = pass_queue_lock(contender, request);
    // The record contains the latest success of the action.
    let success = match token {
        Some(token) if is_success && !is_exclusive => success_in_slot(contender, token, &held),
        _ => String::new(),
    };
    let (lock, free_record) = match is_exclusive {
        true => Default::default(),
        false => (lock_record(action), free_shared_record(action)),
    };
    let free = format!(
        "{lock}{success}{}SET {CHANGED}=ROW_COUNT(){pass_early};{free_record}",
        free_row(table(contender), &held, request, is_success && is_exclusive)
    );
    let leave = match request.has_entry {
        true => leave_queue(owner_id),
        false => String::new(),
    };
    let (free, recorded, outcome) = match token.zip(request.run) {
        // The queue entry is deleted first, because the next waiter would otherwise let it pass.
        None if !is_exclusive => (
            format!("BEGIN;{free}{leave}COMMIT;{pass_late}"),
            "NULL".to_owned(),
            "NULL".to_owned(),
        ),
        None => (
            format!("{leave}{free}{pass_late}"),
            "NULL".to_owned(),
            "NULL".to_owned(),
        ),
        Some((token, run)) => {
            let record = match request.handed_off {
                false => insert_run(contender, token, run, &format!("{CHANGED}>0")),
                true => record_handed_off_run(contender, token, run, &handed_off_here, &passed_on),
            };
            let clear = match request.handed_off {
                true => handoff::clear_handoff(owner_id),
                false => String::new(),
            };
            let prune = prune_history(contender, token);
            (
                format!("BEGIN;{free}{record}{leave}COMMIT;{clear}{pass_late}{prune}"),
                is_recorded(contender, token, run.outcome),
                recorded_outcome(contender, token),
            )
        }
    };
    format!(
        "{free}SELECT {REQUEST},{CHANGED}>0 AS changed,COUNT(*) AS named,{passed_on} AS passed_on,\
         {granted_again} AS granted_again,\
         MAX(IF(revoked_at IS NULL,NULL,token)) AS revoked,{recorded} AS recorded,{outcome} AS outcome \
         FROM {} WHERE {} AND min_hold=0 AND ({left})",
        table(contender),
        has_owner_id(action, owner_id),
    )
}

/// Returns the condition that the action has been granted again since the run of `request`. 0 if this would prove nothing.
fn granted_again(contender: &Contender, request: &ReleaseRequest) -> String {
    match request.token.zip(request.run) {
        // Without a history, a failed run has no proof of its release, so a later grant does not prove a loss.
        Some((token, run))
            if request.handed_off || contender.history > 0 || run.outcome.is_success() =>
        {
            let action = hex(contender.action.as_str());
            match contender.limit.is_exclusive() {
                true => {
                    format!(
                        "EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} AND token>{token})"
                    )
                }
                // A later grant of another slot proves nothing.
                false => format!(
                    "NOT EXISTS(SELECT 1 FROM dlock_slot WHERE action={action} AND token={token})"
                ),
            }
        }
        _ => "0".to_owned(),
    }
}

/// Returns what releases the queue lock and the holder lock: assignments, after a comma, in the statement that follows the
/// change of the row, and a statement after the commit. Each of them may be empty.
fn pass_queue_lock(contender: &Contender, request: &ReleaseRequest) -> (String, String) {
    let pass = match request.queue_lock {
        QueueLock::Available => {
            format!(
                "RELEASE_LOCK({})",
                queue_lock_name(&hex(contender.action.as_str()))
            )
        }
        QueueLock::Unavailable => "NULL".to_owned(),
    };
    if !contender.limit.is_exclusive() {
        // The head of the queue waits for the holder lock. Its attempt then waits for the record, which this transaction has
        // locked, so it counts the slots after the commit. A holder that has started no command may have the queue lock.
        let pass_early = match request.queue_lock {
            QueueLock::Available => format!(
                ",@dlock_passed={pass},@dlock_passed=RELEASE_LOCK({})",
                lease_lock_name(contender, request.owner_id)
            ),
            QueueLock::Unavailable => String::new(),
        };
        return (pass_early, String::new());
    }
    // Followers of the leader read the record as soon as they get the holder lock.
    let wake = match request.queue_lock {
        QueueLock::Available => format!(
            "RELEASE_LOCK({})",
            holder_lock_name(&hex(request.owner_id.bytes()))
        ),
        QueueLock::Unavailable => "NULL".to_owned(),
    };
    let has_run = request.token.is_some() && request.run.is_some();
    match has_run && (request.handed_off || contender.once.is_some()) {
        true => (String::new(), format!("DO {pass},{wake};")),
        false => (format!(",@dlock_passed={pass}"), format!("DO {wake};")),
    }
}

/// Records the `run` of a lease that was handed off, whose row may already contain the next holder.
fn record_handed_off_run(
    contender: &Contender,
    token: Token,
    run: RunRecord,
    handed_off_here: &str,
    passed_on: &str,
) -> String {
    let success = match run.outcome.is_success() {
        true => record_handed_off_success(contender, token, handed_off_here),
        false => String::new(),
    };
    let is_released = format!("({CHANGED}>0 OR {passed_on})");
    format!(
        "{success}{}",
        insert_run(contender, token, run, &is_released)
    )
}

/// Frees the row of a revoked lease, if the row contains the owner id of `request` and the token `revoked`. The token
/// is part of the condition, because the packet may arrive again while this process holds a different lease. Records
/// the run of `request` as revoked if an operator has freed the row with SQL and the action has not been granted since
/// then. Returns 1 if the revoked lease no longer exists.
pub(in crate::store::mysql) fn reconcile(
    contender: &Contender,
    request: &ReleaseRequest,
    revoked: Option<Token>,
) -> String {
    let table = table(contender);
    let record = match request.token {
        Some(token) if request.run.is_some() && contender.history > 0 => {
            let freed = format!(
                "action={} AND token={token} AND owner_id IS NULL",
                hex(contender.action.as_str())
            );
            insert_run_from_row(table, HistoryOutcome::Revoked, &freed)
        }
        _ => String::new(),
    };
    let revoked_lease = format!(
        "{} AND revoked_at IS NOT NULL AND token={}",
        has_owner_id(&contender.action, request.owner_id),
        revoked.unwrap_or(Token(0)),
    );
    let request = ReleaseRequest {
        keep: None,
        ..*request
    };
    let free = free_row(table, &revoked_lease, &request, false);
    let (lock, unlock) = match contender.limit.is_exclusive() {
        true => Default::default(),
        false => (
            format!("BEGIN;{}", lock_record(&contender.action)),
            format!("{}COMMIT;", free_shared_record(&contender.action)),
        ),
    };
    format!(
        "{lock}{free}{record}{unlock}SELECT {REQUEST},COUNT(*)=0 AS answer FROM {table} WHERE {revoked_lease}"
    )
}

/// Records a success in the row if the row already contains the next holder after a hand-off on this server. Does nothing
/// if the success of a later run is already recorded.
fn record_handed_off_success(contender: &Contender, token: Token, handed_off_here: &str) -> String {
    format!(
        "UPDATE dlock_lock SET succeeded_at=UTC_TIMESTAMP(6),succeeded_token={token},\
         succeeded_by={} WHERE action={} AND token>{token} AND {handed_off_here} \
         AND COALESCE(succeeded_token,0)<{token};",
        hex(&contender.holder.label),
        hex(contender.action.as_str()),
    )
}

/// Records the success of the lease in a slot that meets `held`. Leases in slots may end in another order than they began.
/// The record is locked before the slot, as in an attempt.
fn success_in_slot(contender: &Contender, token: Token, held: &str) -> String {
    format!(
        "UPDATE dlock_lock SET succeeded_by=IF(COALESCE(succeeded_token,0)<{token},{},succeeded_by),\
         succeeded_token=GREATEST(COALESCE(succeeded_token,0),{token}),succeeded_at=UTC_TIMESTAMP(6) \
         WHERE action={} AND EXISTS(SELECT 1 FROM {SLOTS} WHERE {held});",
        hex(&contender.holder.label),
        hex(contender.action.as_str()),
    )
}

/// Frees the row that meets `condition`. If `keep` is set, the row instead stays held for that duration (`--min-hold`).
/// The noted sessions stay in the row, unless the request says that none is left.
fn free_row(table: &str, condition: &str, request: &ReleaseRequest, is_success: bool) -> String {
    let freed = match request.keep {
        None => "owner_id=NULL,expires_at=UTC_TIMESTAMP(6)".to_owned(),
        // The lease expires like any other lease. Contenders treat the remaining time as a new lease, because the
        // server's clock may be changed during that time.
        Some(keep) => format!(
            "min_hold=1,renewals=renewals+1,renewed_at=UTC_TIMESTAMP(6),ttl_us={keep},\
             expires_at=UTC_TIMESTAMP(6)+INTERVAL {keep} MICROSECOND",
            keep = keep.as_micros()
        ),
    };
    let success = match is_success {
        true => ",succeeded_at=UTC_TIMESTAMP(6),succeeded_token=token,succeeded_by=holder",
        false => "",
    };
    let sessions = match request.clears_sessions {
        true => ",sessions=NULL",
        false => "",
    };
    format!(
        "UPDATE {table} SET {freed},released_at=UTC_TIMESTAMP(6){success}{sessions} WHERE {condition};"
    )
}
