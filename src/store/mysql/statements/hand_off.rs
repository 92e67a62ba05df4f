//! The hand-off: a holder's word that its command is dead, before its release is on the disk.
//!
//! A release is a commit, a grant another, and a server writes the one before it begins with the
//! other. Of the two only the grant has to last: the contender that is granted the lease while the row
//! still names its last holder needs to know that this one is done with it, and the hand-off is the proof.
//! It is a named lock after the holder's claim, a random number that nobody else names a lock after, and
//! it counts only where the session that has it is the one that the row names, on the server that the row
//! names. A lock that is lost proves nothing, so a session's end or a server's never looks like a
//! hand-off, and without one everybody waits for the row.

use super::{HERE, REQUEST, gate_name, hex};
use crate::lease::Claim;
use crate::store::Contender;

/// The lock of the claim that is the expression `claim`. A name of NULL would be an error.
fn name(claim: &str) -> String {
    format!("CONCAT('dlock-notice:',COALESCE(HEX({claim}),''))")
}

/// Hands `claim` off, passes the gate on, and answers whether that was done. Changes no row. Whether the
/// row is ours need not be known for that: a hand-off of a claim that it does not name means nothing,
/// and to ask would take the server longer than everything else here.
pub(in crate::store::mysql) fn give(contender: &Contender, claim: Claim) -> String {
    format!(
        "SET @dlock_noticed=IF(GET_LOCK({},0)=1,COALESCE(RELEASE_LOCK({}),0)+1,0);\
         SELECT {REQUEST},@dlock_noticed>0 AS answer",
        name(&hex(claim.bytes())),
        gate_name(&hex(contender.action.as_str())),
    )
}

/// Takes the hand-off of `claim` back: the row says it now.
pub(super) fn withdrawn(claim: Claim) -> String {
    format!("DO RELEASE_LOCK({});", name(&hex(claim.bytes())))
}

/// A condition on a row of `dlock_lock` that is another's: its holder has handed it off.
pub(super) fn is_given() -> String {
    format!(
        "(server={HERE} AND session_id=IS_USED_LOCK({}))",
        name("claim")
    )
}
