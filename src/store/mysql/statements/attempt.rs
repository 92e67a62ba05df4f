//! Taking the lease: the one statement in which of any number of contenders one wins.

use std::time::Duration;

use super::super::schema::VERSION;
use super::{HERE, facts, gate_ours, gate_taken, hex, hex_action};
use crate::store::{ALLOWANCE, Contender, GATE_ALLOWANCE, Gate, Version, Wish};

/// Takes the lease if the take-over rule allows it.
///
/// Changes at most the row of `action`, and that in one UPDATE, so of any number of contenders one
/// wins. "No row changed" means nothing by itself: the row may be another's, or ours already when
/// this packet is a repetition. With a gate nothing is changed but by the session that has it: a
/// newcomer cannot barge. Beyond that it matches when
/// - the row is free, or
/// - the lease lapsed [`GATE_ALLOWANCE`] ago by the server's clock, and we have the gate that the
///   holder's session had: that session is gone, so a stepped clock alone cannot fool us, or
/// - the lease lapsed [`ALLOWANCE`] ago by the server's clock, or
/// - the row still stands as the contender has watched it for a full ttl on its own clock
///   (`seen`); no clock of the server is trusted there.
///
/// Who has a place in the line gives it up in the same transaction: one commit, and a holder is
/// never in its own line.
///
/// The token takes the server's clock as its floor so that it keeps growing over a restored backup
/// and over a fail-over that lost the last grants.
///
/// `at_gate` tells that the gate was just taken and need not be tried for.
pub(in crate::store::mysql) fn attempt(
    contender: &Contender,
    wish: &Wish,
    at_gate: bool,
) -> String {
    let Contender { action, ttl, .. } = contender;
    let ttl_us = ttl.as_micros();
    let watched = wish
        .seen
        .map_or_else(String::new, |Version { token, renewals }| {
            format!(" OR (token={token} AND renewals={renewals})")
        });
    let lapsed = |by: Duration| {
        let by = by.as_micros();
        format!("expires_at<UTC_TIMESTAMP(6)-INTERVAL {by} MICROSECOND")
    };
    let (take, gated, have_gate, witnessed) = match wish.gate {
        Gate::Used => (
            match at_gate {
                true => String::new(),
                false => format!("DO {};", gate_taken(action, 0)),
            },
            "1",
            format!("AND {} ", gate_ours(action)),
            format!(
                " OR (gated=1 AND server={HERE} AND {})",
                lapsed(GATE_ALLOWANCE)
            ),
        ),
        Gate::Absent => (String::new(), "0", String::new(), String::new()),
    };
    let claim = hex(wish.claim.bytes());
    let action_hex = hex_action(action);
    let (begin, leave) = match wish.queued {
        true => (
            "BEGIN;",
            format!(
                "DELETE FROM dlock_waiter WHERE claim={claim} AND EXISTS(SELECT 1 FROM dlock_lock \
                 WHERE action={action_hex} AND claim={claim});COMMIT;"
            ),
        ),
        false => ("", String::new()),
    };
    format!(
        "{take}{begin}UPDATE dlock_lock SET \
         token=GREATEST(token+1,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))),\
         claim={claim},{facts},\
         server={HERE},session_id=CONNECTION_ID(),gated={gated},\
         ttl_us={ttl_us},renewals=0,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action_hex} AND (SELECT MAX(version) FROM dlock_schema)={VERSION} {have_gate}\
         AND (claim IS NULL OR {abandoned}{witnessed}{watched});{leave}",
        facts = facts(&contender.holder),
        abandoned = lapsed(ALLOWANCE),
    )
}
