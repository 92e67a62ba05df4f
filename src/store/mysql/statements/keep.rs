//! Keeping the lease and giving it up, both under the condition that it is still ours.

use std::time::Duration;

use super::hand_off;
use super::line::place_given_up;
use super::record::{ended, ended_as, ended_by_another, pruned, recorded};
use super::{CHANGED, HERE, REQUEST, gate_name, gate_ours, gate_taken, hex};
use crate::lease::action::Action;
use crate::lease::{Claim, Grant, Token};
use crate::store::{Contender, Fate, Gate, Parting};

/// The condition that a row names `claim`, whatever has become of the lease.
fn names(action: &Action, claim: Claim) -> String {
    let action = hex(action.as_str());
    format!("action={action} AND claim={}", hex(claim.bytes()))
}

/// The condition that a row of `dlock_lock` is held by `claim` under `token`: the same as
/// [`is_held_by`](crate::store::Sighting::is_held_by) of a row that was read.
fn is_holder(action: &Action, claim: Claim, token: Token) -> String {
    let names = names(action, claim);
    format!("{names} AND token={token} AND broken_at IS NULL")
}

/// Extends the lease, and writes this session into the row. Changes the row only while it is ours,
/// whatever the server's clock says; the condition is the same every time, so a repetition after a lost
/// reply succeeds. Whether it did is left in [`CHANGED`].
///
/// A session that does not have the gate tries for it, and the row says whether it got it: contenders
/// judge by the session that the row names.
pub(in crate::store::mysql) fn renew(contender: &Contender, grant: Grant, gate: Gate) -> String {
    let action = &contender.action;
    let name = gate_name(&hex(action.as_str()));
    let (take, gated) = match gate {
        Gate::Used => (
            format!("DO {};", gate_taken(&name, 0)),
            format!("COALESCE({},0)", gate_ours(&name)),
        ),
        Gate::Absent => (String::new(), "0".to_owned()),
    };
    format!(
        "{take}UPDATE dlock_lock SET renewals=renewals+1,\
         server={HERE},session_id=CONNECTION_ID(),gated={gated},renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {} MICROSECOND WHERE {};SET {CHANGED}=ROW_COUNT();",
        contender.ttl.as_micros(),
        is_holder(action, grant.claim, grant.token),
    )
}

/// Frees the row if it is still ours, or keeps it from others for a while, with the record of the
/// run in the same transaction; then clears the history. Without a token it frees whatever names our
/// claim.
///
/// The next waiter is let through the gate as soon as the row is changed, unless it was by a hand-off, or
/// the run may have made it needless: then it has to see the success, or it would take the lease. It
/// comes to the row only some time later, and there the row's lock keeps it until the commit, or until
/// it is undone: so the commit takes no time of its own.
///
/// "No row changed": it was not ours, or this is a repetition, or the next holder has the row by now after
/// a hand-off. Answers what was changed, what of ours is still there, and what is recorded.
pub(in crate::store::mysql) fn release(contender: &Contender, parting: &Parting) -> String {
    let Parting { claim, token, .. } = *parting;
    let action = &contender.action;
    let is_success = parting.run.is_some_and(|run| run.fate.is_success());
    let (ours, left) = match token {
        // What must not be there any more, and what an operator has left to us.
        Some(token) => (
            is_holder(action, claim, token),
            format!("token={token} OR broken_at IS NOT NULL"),
        ),
        None => (names(action, claim), "TRUE".to_owned()),
    };
    let free = freed(&ours, parting.keep, is_success);
    let place = match parting.queued {
        true => place_given_up(claim),
        false => String::new(),
    };
    let pass = match parting.gate {
        Gate::Used => format!("RELEASE_LOCK({})", gate_name(&hex(action.as_str()))),
        Gate::Absent => "NULL".to_owned(),
    };
    let run = token.zip(parting.run);
    let is_late = run.is_some() && (parting.handed_off || contender.once.is_some());
    let (early, late) = match is_late {
        true => (String::new(), format!("DO {pass};")),
        false => (format!(",@dlock_passed={pass}"), String::new()),
    };
    let free = format!("{free}SET {CHANGED}=ROW_COUNT(){early};");
    let (free, recorded, ending) = match run {
        None => (
            format!("{free}{place}"),
            "NULL".to_owned(),
            "NULL".to_owned(),
        ),
        Some((token, run)) => {
            let success = match parting.handed_off && is_success {
                true => succeeded_before(contender, token),
                false => String::new(),
            };
            let (record, withdraw) = match parting.handed_off {
                true => (
                    ended(contender, token, run, "TRUE"),
                    hand_off::withdrawn(claim),
                ),
                false => (
                    ended(contender, token, run, &format!("{CHANGED}>0")),
                    String::new(),
                ),
            };
            let prune = pruned(contender, token);
            (
                format!("BEGIN;{free}{success}{record}{place}COMMIT;{withdraw}{late}{prune}"),
                recorded(contender, token, run.fate),
                ended_as(contender, token),
            )
        }
    };
    format!(
        "{free}SELECT {REQUEST},{CHANGED}>0 AS changed,COUNT(*) AS named,\
         MAX(IF(broken_at IS NULL,NULL,token)) AS broken,{recorded} AS recorded,{ending} AS ending \
         FROM dlock_lock WHERE {} AND kept=0 AND ({left})",
        names(action, claim),
    )
}

/// Frees a row that names the claim of `parting` and has the token `broken`, by which an operator has ended
/// the lease. By the token, since the request may arrive once more while we hold another lease. Records a
/// run as broken, if it is the last that had the row and somebody freed it by hand. Answers whether
/// that row names us no more.
pub(in crate::store::mysql) fn settle(
    contender: &Contender,
    parting: &Parting,
    broken: Option<Token>,
) -> String {
    let record = match parting.token {
        Some(token) if parting.run.is_some() && contender.history > 0 => {
            let freed = format!("token={token} AND claim IS NULL");
            ended_by_another(&contender.action, Fate::Broken, &freed)
        }
        _ => String::new(),
    };
    let ours = format!(
        "{} AND broken_at IS NOT NULL AND token={}",
        names(&contender.action, parting.claim),
        broken.unwrap_or(Token(0)),
    );
    let free = freed(&ours, None, false);
    format!("{free}{record}SELECT {REQUEST},COUNT(*)=0 AS answer FROM dlock_lock WHERE {ours}")
}

/// Notes a success on the row when the next holder has it already by a hand-off, unless that one has
/// succeeded as well.
fn succeeded_before(contender: &Contender, token: Token) -> String {
    format!(
        "UPDATE dlock_lock SET succeeded_at=UTC_TIMESTAMP(6),succeeded_token={token},\
         succeeded_by={} WHERE action={} AND token>{token} \
         AND COALESCE(succeeded_token,0)<{token};",
        hex(&contender.holder.label),
        hex(contender.action.as_str()),
    )
}

/// Ends the lease of the row that meets `ours`, or keeps the row from others for as long as `keep` says.
fn freed(ours: &str, keep: Option<Duration>, is_success: bool) -> String {
    let freed = match keep {
        None => "claim=NULL,expires_at=UTC_TIMESTAMP(6)".to_owned(),
        // It expires like any other: contenders watch what is left of it as a new lease, and the
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
    format!("UPDATE dlock_lock SET {freed},released_at=UTC_TIMESTAMP(6){success} WHERE {ours};")
}
