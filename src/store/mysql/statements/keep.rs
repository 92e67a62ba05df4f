//! Keeping the lease and giving it up, both under the condition that it is still ours.

use super::record::{ended, recorded};
use super::{HERE, gate_name, gate_ours, gate_taken, hex, hex_action};
use crate::lease::Grant;
use crate::store::{Contender, Gate, Parting};

/// Extends the lease. Changes the row only while claim and token are ours, whatever the server's
/// clock says; the condition is the same every time, so a repetition after a lost reply succeeds.
///
/// On a new session the gate is tried for again, and the row says whether we got it: without it
/// we are no longer proof of our own life.
pub(in crate::store::mysql) fn renew(
    contender: &Contender,
    grant: Grant,
    moved: Option<Gate>,
) -> String {
    let (take, session) = match moved {
        None => (String::new(), String::new()),
        Some(Gate::Used) => (
            format!("DO {};", gate_taken(&contender.action, 0)),
            format!(
                "server={HERE},session_id=CONNECTION_ID(),gated=COALESCE({},0),",
                gate_ours(&contender.action)
            ),
        ),
        Some(Gate::Absent) => (
            String::new(),
            format!("server={HERE},session_id=CONNECTION_ID(),gated=0,"),
        ),
    };
    format!(
        "{take}UPDATE dlock_lock SET renewals=renewals+1,{session}\
         renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {} MICROSECOND \
         WHERE action={} AND claim={} AND token={};",
        contender.ttl.as_micros(),
        hex_action(&contender.action),
        hex(grant.claim.bytes()),
        grant.token,
    )
}

/// Frees the row if it is still ours, or keeps it from others for a while, with the record of the
/// run in the same transaction; then lets the next waiter through the gate, then clears our place in
/// the line: in this order, so that the waiter finds the row free and is not kept waiting for the
/// rest. "No row changed": it was not ours, or this is a repetition. Answers whether the lease is
/// still ours, which must not be, and whether a success that must be recorded is.
pub(in crate::store::mysql) fn release(
    request: [u8; 8],
    contender: &Contender,
    parting: &Parting,
) -> String {
    let action = &contender.action;
    let action_hex = hex_action(action);
    let claim = hex(parting.claim.bytes());
    let token = match parting.token {
        Some(token) => format!(" AND token={token}"),
        None => String::new(),
    };
    let gate = match parting.gate {
        Gate::Used => format!("DO RELEASE_LOCK({});", gate_name(action)),
        Gate::Absent => String::new(),
    };
    let place = match parting.queued {
        true => format!("DELETE FROM dlock_waiter WHERE claim={claim};"),
        false => String::new(),
    };
    let freed = match parting.keep {
        None => "claim=NULL,expires_at=UTC_TIMESTAMP(6)".to_owned(),
        // It lapses like any other: contenders watch what is left of it as a new lease, and the
        // server's clock may be set meanwhile.
        Some(keep) => format!(
            "kept=1,renewals=renewals+1,renewed_at=UTC_TIMESTAMP(6),ttl_us={keep},\
             expires_at=UTC_TIMESTAMP(6)+INTERVAL {keep} MICROSECOND",
            keep = keep.as_micros()
        ),
    };
    let run = parting.token.zip(parting.run);
    let (begin, record) = match run {
        Some((token, run)) => ("BEGIN;", format!("{}COMMIT;", ended(contender, token, run))),
        None => ("", String::new()),
    };
    let success = match parting.run.is_some_and(|run| run.fate.is_success()) {
        true => ",succeeded_at=UTC_TIMESTAMP(6),succeeded_token=token,succeeded_by=holder",
        false => "",
    };
    let recorded = run.map_or_else(
        || "NULL".to_owned(),
        |(token, run)| recorded(contender, token, run.fate),
    );
    format!(
        "{begin}UPDATE dlock_lock SET \
         {freed},released_at=UTC_TIMESTAMP(6){success} \
         WHERE action={action_hex} AND claim={claim}{token};\
         {record}{gate}{place}\
         SELECT {} AS request,COUNT(*) AS answer,{recorded} AS recorded \
         FROM dlock_lock WHERE action={action_hex} AND claim={claim}{token} AND kept=0",
        hex(&request),
    )
}
