//! The notice: a holder's word that its command is dead, before its release is on the disk.
//!
//! A release is a commit, a grant another, and a server writes the one before it begins with the
//! other. Of the two only the grant has to last: whoever is granted the lease while the row still names
//! its last holder needs to know that this one is done with it, and of that the notice is proof. It is
//! a named lock after the holder's claim, a random number that nobody else names a lock after, and it
//! counts only where the session that has it is the one that the row says is the holder's. A lock that
//! is lost proves nothing, so a session's end or a server's never looks like a notice, and without
//! one everybody waits for the row.

use super::{gate_name, gate_ours, hex, hex_action};
use crate::lease::Claim;
use crate::lease::action::Action;
use crate::store::Contender;

/// The notice about the claim that is the expression `claim`. A name of NULL would be an error.
fn name(claim: &str) -> String {
    format!("CONCAT('dlock-notice:',COALESCE(HEX({claim}),''))")
}

/// Gives notice of the end of `claim`, and passes the gate on. Whether the row is ours need not be known
/// for that: a notice about a claim that it does not name means nothing, and to ask would take the
/// server longer than everything else here.
pub(super) fn give(contender: &Contender, claim: Claim) -> String {
    format!(
        "SET @dlock_noticed=IF(GET_LOCK({},0)=1,COALESCE(RELEASE_LOCK({}),0)+1,0);",
        name(&hex(claim.bytes())),
        gate_name(&contender.action),
    )
}

/// Takes the notice about `claim` back: the row says it now.
pub(super) fn withdrawn(claim: Claim) -> String {
    format!("DO RELEASE_LOCK({});", name(&hex(claim.bytes())))
}

/// A condition on a row of `dlock_lock` that is another's: its holder has given notice.
pub(super) fn given() -> String {
    format!("session_id=IS_USED_LOCK({})", name("claim"))
}

/// With the gate, waits until a row whose holder has given notice is free: for who cannot take it before.
pub(in crate::store::mysql) fn awaited(action: &Action) -> String {
    let name = name("claim");
    format!(
        "DO (SELECT IF(GET_LOCK({name},1),RELEASE_LOCK({name}),0) FROM dlock_lock \
         WHERE action={} AND {} AND {});",
        hex_action(action),
        gate_ours(action),
        given()
    )
}
