//! Taking the lease: the one statement in which of any number of contenders one wins.

use super::super::schema::VERSION;
use super::fence::{PASSABLE, lowered, made, raised};
use super::hand_off;
use super::record::{ended_by_another, needless, needless_row};
use super::{
    CHANGED, HERE, OPEN, SERVER_TIME, assigned, gate_name, gate_ours, gate_taken, hex, hex_action,
};
use crate::lease::Claim;
use crate::store::{Contender, Fate, Fence, Gate, Version};
use crate::twin::{self, Mechanism};

/// How a contender comes to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::mysql) enum Approach {
    /// Takes the gate if nobody has it, and the row if it is free.
    Free,
    /// The same when the gate was taken a moment ago.
    AtGate,
    /// Takes the row as it was seen: another's that the take-over rule allows us, or a free one with
    /// a fence. The gate is ours by now or will not be.
    Over(Version, Fence),
}

/// Takes the lease.
///
/// Changes at most the row of `action`, and that in one UPDATE, so of any number of contenders one
/// wins; whether it did is left in [`CHANGED`]. "No row changed" means nothing by itself: the row may be
/// another's, or ours already when this packet is a repetition. With a gate nothing is changed but by the
/// session that has it: a newcomer cannot barge. Beyond that it matches when the row is free, or still
/// stands as it was seen to be for the taking: then nobody has renewed it since.
///
/// The run whose lease is taken over is recorded as lost in the same transaction. The INSERT has the
/// row locked, so that it and the UPDATE find the same.
///
/// Where there is a fence, a grant raises it in the same transaction, and waits for nobody: while
/// a command's transaction has it locked nothing matches.
///
/// The place in the line of a holder whose lease is taken over goes with its claim.
///
/// With the gate it matches as well after a hand-off, unless a success of that run could make this one
/// needless: that is told by the row.
///
/// A success that makes the run needless keeps the UPDATE from matching, but only as the statement
/// saw it when it began; a contender that is granted the lease has to look once more. At the gate, which
/// is passed on at once, nobody is kept waiting.
///
/// The token takes the server's clock as its floor so that it keeps growing over a restored backup
/// and over a fail-over that lost the last grants.
pub(in crate::store::mysql) fn attempt(
    contender: &Contender,
    claim: Claim,
    gate: Gate,
    approach: Approach,
) -> String {
    let Contender { action, ttl, .. } = contender;
    let ttl_us = ttl.as_micros();
    let (take, gated, have_gate) = match gate {
        Gate::Used => {
            let take = match (approach, needless(contender)) {
                (Approach::Free, _) => format!("DO {};", gate_taken(action, 0)),
                (Approach::AtGate, Some(needless)) => {
                    format!("DO IF({needless},RELEASE_LOCK({}),0);", gate_name(action))
                }
                (Approach::AtGate, None) | (Approach::Over(..), _) => String::new(),
            };
            let have_gate = match twin::is_out(Mechanism::OwnClock) {
                false => format!(" AND {}", gate_ours(action)),
                true => String::new(),
            };
            (take, "1", have_gate)
        }
        Gate::Absent => (String::new(), "0", String::new()),
    };
    let fence = match approach {
        Approach::Over(_, fence) => fence,
        Approach::Free | Approach::AtGate => contender.fence,
    };
    let action_hex = hex_action(action);
    let claim = hex(claim.bytes());
    // A grant that does not raise the fence must not come upon one.
    let (make_fence, lower_fence, passable, fenced, raise_fence) = match fence {
        Fence::Raised => (
            made(action),
            lowered(action),
            PASSABLE,
            "fenced=1,",
            raised(action, &format!("claim={claim}")),
        ),
        Fence::AsItIs => (
            String::new(),
            String::new(),
            " AND fenced=0",
            "",
            String::new(),
        ),
    };
    let (record, standing) = match approach {
        Approach::Free | Approach::AtGate => {
            let standing = match (gate, &contender.once) {
                (Gate::Used, None) => format!("(claim IS NULL OR {})", hand_off::is_given()),
                (Gate::Used, Some(_)) | (Gate::Absent, _) => "claim IS NULL".to_owned(),
            };
            (String::new(), standing)
        }
        Approach::Over(Version { token, renewals }, _) => {
            let seen = format!("token={token} AND renewals={renewals}");
            let claimed = format!("claim IS NOT NULL AND {seen} AND {OPEN}{have_gate}{passable}");
            // Of a broken lease the end has been recorded.
            let unrecorded = format!("kept=0 AND broken_at IS NULL AND {claimed}");
            let record = match contender.history {
                0 => String::new(),
                _ => ended_by_another(action, Fate::Lost, &unrecorded),
            };
            let clear = format!(
                "DELETE FROM dlock_waiter WHERE claim=(SELECT claim FROM dlock_lock \
                 WHERE action={action_hex} AND {claimed});"
            );
            (format!("{record}{clear}"), seen)
        }
    };
    let wanted =
        needless_row(contender).map_or_else(String::new, |needless| format!(" AND NOT {needless}"));
    // Who stands in line has come upon these tables before, with an attempt that checked them.
    let version = match approach {
        Approach::AtGate => String::new(),
        Approach::Free | Approach::Over(..) => {
            format!(" AND (SELECT MAX(version) FROM dlock_schema)={VERSION}")
        }
    };
    let alone = record.is_empty() && raise_fence.is_empty();
    let (begin, commit) = match alone {
        true => ("", ""),
        false => ("BEGIN;", "COMMIT;"),
    };
    format!(
        "{take}{make_fence}{begin}{lower_fence}{record}UPDATE dlock_lock SET {fenced}\
         token=GREATEST(token+1,{SERVER_TIME}),\
         claim={claim},{facts},\
         server={HERE},session_id=CONNECTION_ID(),gated={gated},\
         ttl_us={ttl_us},renewals=0,kept=0,broken_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action_hex}{version}{have_gate} AND {standing} AND {OPEN}{wanted}{passable};\
         SET {CHANGED}=ROW_COUNT();{raise_fence}{commit}",
        facts = assigned(&contender.holder),
    )
}
