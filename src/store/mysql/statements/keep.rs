//! Keeping the lease and giving it up, both under the condition that it is still ours.

use std::time::Duration;

use super::line::place_given_up;
use super::notice;
use super::prepare::{NOTICE, execute, prepare};
use super::record::{ended, pruned, recorded, taken_away};
use super::{HERE, gate_name, gate_ours, gate_taken, hex, hex_action};
use crate::lease::{Claim, Grant, Token};
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

/// Gives up the place in the line of who has been granted the lease, and makes ready the notice of its
/// end.
pub(in crate::store::mysql) fn finish(
    request: [u8; 8],
    contender: &Contender,
    grant: Grant,
    prepares: bool,
) -> String {
    let ready = match prepares {
        true => prepare(NOTICE, &notice::give(contender, grant.claim)),
        false => String::new(),
    };
    format!(
        "{}{ready}SELECT {} AS request,1 AS answer",
        place_given_up(grant.claim),
        hex(&request)
    )
}

/// Gives notice of the end of `claim`, and answers whether that was done. `readied` tells that this
/// session was told how by [`finish`].
pub(in crate::store::mysql) fn give_notice(
    request: [u8; 8],
    contender: &Contender,
    claim: Claim,
    readied: bool,
) -> String {
    let give = match readied {
        true => execute(NOTICE),
        false => notice::give(contender, claim),
    };
    format!(
        "{give}SELECT {} AS request,@dlock_noticed>0 AS answer",
        hex(&request)
    )
}

/// Frees the row if it is still ours, or keeps it from others for a while, with the record of the
/// run in the same transaction; then clears our place in the line and the history.
///
/// The next waiter is let through the gate as soon as the row is changed, unless it was by a notice. It
/// comes to the row only some time later, and there the row's lock keeps it until the commit, or until
/// it is undone: so the commit takes no time of its own.
///
/// "No row changed": it was not ours, or this is a repetition, or whoever was `noticed` of it has the row
/// by now. Answers whether the lease is still ours, which must not be, and whether what must be recorded
/// is: a success, or an end that was given notice of.
pub(in crate::store::mysql) fn release(
    request: [u8; 8],
    contender: &Contender,
    parting: &Parting,
    noticed: bool,
) -> String {
    let Parting { claim, token, .. } = *parting;
    let is_success = parting.run.is_some_and(|run| run.fate.is_success());
    let free = freed(contender, claim, token, parting.keep, is_success);
    let run = token.zip(parting.run);
    let (and_pass, pass) = match parting.gate {
        Gate::Used => {
            let pass = format!("RELEASE_LOCK({})", gate_name(&contender.action));
            (format!(",@dlock_passed={pass}"), format!("DO {pass};"))
        }
        Gate::Absent => (String::new(), String::new()),
    };
    let free = match (run, &contender.once) {
        (None, _) => format!("{free}{pass}"),
        (Some((token, run)), _) if noticed => {
            let success = match is_success {
                true => succeeded_before(contender, token),
                false => String::new(),
            };
            let ended = ended(contender, token, run, "1");
            format!(
                "BEGIN;{free}{success}{ended}COMMIT;{}",
                notice::withdrawn(claim)
            )
        }
        (Some((token, run)), None) => format!(
            "BEGIN;{free}SET @dlock_freed=ROW_COUNT(){and_pass};{}COMMIT;",
            ended(contender, token, run, "@dlock_freed")
        ),
        // A waiter whom this success may make needless has to see it, or it would take the lease.
        (Some((token, run)), Some(_)) => format!(
            "BEGIN;{free}{}COMMIT;{pass}",
            ended(contender, token, run, "ROW_COUNT()")
        ),
    };
    let place = match parting.queued {
        true => place_given_up(claim),
        false => String::new(),
    };
    let prune = run.map_or_else(String::new, |(token, _)| pruned(contender, token));
    let recorded = match run {
        Some((token, _)) if noticed => was_ours(contender, claim, token),
        Some((token, run)) => recorded(contender, token, run.fate),
        None => "NULL".to_owned(),
    };
    format!(
        "{free}{place}{prune}\
         SELECT {} AS request,COUNT(*) AS answer,{recorded} AS recorded \
         FROM dlock_lock WHERE {} AND kept=0",
        hex(&request),
        ours(contender, claim, token),
    )
}

/// Whether the lease was still ours when notice was given: nobody has ended it by hand, or recorded that
/// it was lost.
fn was_ours(contender: &Contender, claim: Claim, token: Token) -> String {
    let still_named = format!(
        "EXISTS(SELECT 1 FROM dlock_lock WHERE {})",
        ours(contender, claim, None)
    );
    match contender.history {
        0 => format!("NOT {still_named}"),
        _ => format!("NOT ({still_named} OR {})", taken_away(contender, token)),
    }
}

/// Notes a success on the row when whoever was given notice has it already, unless that one has
/// succeeded as well.
fn succeeded_before(contender: &Contender, token: Token) -> String {
    format!(
        "UPDATE dlock_lock SET succeeded_at=UTC_TIMESTAMP(6),succeeded_token={token},\
         succeeded_by={} WHERE action={} AND token>{token} \
         AND COALESCE(succeeded_token,0)<{token};",
        hex(contender.holder.label.as_bytes()),
        hex_action(&contender.action),
    )
}

/// Ends the lease of `claim`, or keeps the row from others for as long as `keep` says.
fn freed(
    contender: &Contender,
    claim: Claim,
    token: Option<Token>,
    keep: Option<Duration>,
    is_success: bool,
) -> String {
    let freed = match keep {
        None => "claim=NULL,expires_at=UTC_TIMESTAMP(6)".to_owned(),
        // It lapses like any other: contenders watch what is left of it as a new lease, and the
        // server's clock may be set meanwhile.
        Some(keep) => format!(
            "kept=1,renewals=renewals+1,renewed_at=UTC_TIMESTAMP(6),ttl_us={keep},\
             expires_at=UTC_TIMESTAMP(6)+INTERVAL {keep} MICROSECOND",
            keep = keep.as_micros()
        ),
    };
    let success = match is_success {
        true => ",succeeded_at=UTC_TIMESTAMP(6),succeeded_token=token,succeeded_by=holder",
        false => "",
    };
    format!(
        "UPDATE dlock_lock SET {freed},released_at=UTC_TIMESTAMP(6){success} WHERE {};",
        ours(contender, claim, token),
    )
}

/// The condition that the row is that of `claim` and, if it is known, `token`.
fn ours(contender: &Contender, claim: Claim, token: Option<Token>) -> String {
    let token = token.map_or_else(String::new, |token| format!(" AND token={token}"));
    format!(
        "action={} AND claim={}{token}",
        hex_action(&contender.action),
        hex(claim.bytes()),
    )
}
