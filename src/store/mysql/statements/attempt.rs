//! Taking the lease: the one statement in which of any number of contenders one wins.

use super::super::schema::VERSION;
use super::fence::{PASSABLE, lowered, made, raised};
use super::hand_off;
use super::record::{ended_by_another, needless};
use super::{
    CHANGED, HERE, OPEN, SCHEMA_VERSION, SERVER_TIME, assigned, gate_name, gate_ours, gate_taken,
    hex,
};
use crate::store::{Contender, Fate, Fence, Gate, Mode, Version, Wish};
use crate::twin::{self, Mechanism};

/// Takes the lease as `wish` says, after the gate, if there is one and it is neither a take-over nor
/// the end of a wait there (`has_stood`).
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
    wish: &Wish,
    has_stood: bool,
) -> String {
    let Contender { action, ttl, .. } = contender;
    let ttl_us = ttl.as_micros();
    let (action_hex, claim) = (hex(action.as_str()), hex(wish.claim.bytes()));
    let name = gate_name(&action_hex);
    let needless = needless(contender);
    let take = match &needless {
        Some(needless) if has_stood => format!(
            "DO IF(EXISTS(SELECT 1 FROM dlock_lock WHERE action={action_hex} AND {needless}),\
             RELEASE_LOCK({name}),0);"
        ),
        _ if has_stood || wish.is_take_over() || wish.gate == Gate::Absent => String::new(),
        _ => format!("DO {};", gate_taken(&name, 0)),
    };
    let (gated, have_gate) = match wish.gate {
        Gate::Used if twin::is_out(Mechanism::OwnClock) => ("1", String::new()),
        Gate::Used => ("1", format!(" AND {}", gate_ours(&name))),
        Gate::Absent => ("0", String::new()),
    };
    let fence = match wish.mode {
        Mode::TakeOver { fenced: true, .. } => Fence::Raised,
        _ => contender.fence,
    };
    let passable = match fence {
        Fence::Raised => PASSABLE,
        // A grant that does not raise the fence must not come upon one.
        Fence::AsItIs => " AND fenced=0",
    };
    let (record, standing) = match wish.mode {
        Mode::TakeOver { version, .. } => {
            let Version { token, renewals } = version;
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
        Mode::First | Mode::IfFree => {
            let standing = match wish.gate == Gate::Used && contender.once.is_none() {
                true => format!("(claim IS NULL OR {})", hand_off::is_given()),
                false => "claim IS NULL".to_owned(),
            };
            (String::new(), standing)
        }
    };
    let (begin, fenced, commit) = match fence {
        Fence::Raised => (
            format!("{}BEGIN;{}", made(action), lowered(action)),
            "fenced=1,",
            format!("{}COMMIT;", raised(action, &format!("claim={claim}"))),
        ),
        Fence::AsItIs if record.is_empty() => (String::new(), "", String::new()),
        Fence::AsItIs => ("BEGIN;".to_owned(), "", "COMMIT;".to_owned()),
    };
    let wanted = needless.map_or_else(String::new, |needless| format!(" AND NOT {needless}"));
    // A waiter has sent an attempt before, which checked the tables.
    let version = match has_stood {
        true => String::new(),
        false => format!(" AND {SCHEMA_VERSION}={VERSION}"),
    };
    format!(
        "{take}{begin}{record}UPDATE dlock_lock SET {fenced}\
         token=GREATEST(token+1,{SERVER_TIME}),\
         claim={claim},{facts},\
         server={HERE},session_id=CONNECTION_ID(),gated={gated},\
         ttl_us={ttl_us},renewals=0,kept=0,broken_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action_hex}{version}{have_gate} AND {standing} AND {OPEN}{wanted}{passable};\
         SET {CHANGED}=ROW_COUNT();{commit}",
        facts = assigned(&contender.holder),
    )
}
