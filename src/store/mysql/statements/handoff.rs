//! The hand-off: a holder's signal that its command is dead, before its release is on disk.
//!
//! A release is one commit and a grant is another, and a server writes the first before it begins the second. Only the
//! grant has to be durable. A contender that is granted the lease while the row still names the last holder must know
//! that this holder does not use the lease any more, and the hand-off is the proof. It is a named lock whose name
//! contains the holder's owner id, a random number that no other session uses for a lock. It counts only if the session
//! that has the lock is the session that the row names, on the server that the row names. A missing lock is not a
//! hand-off, so the end of a session or a server is never mistaken for one. Without a hand-off, contenders wait for
//! the row.

use super::fragments::{HERE, REQUEST, hex, queue_lock_name};
use crate::lease::OwnerId;
use crate::store::Contender;

/// Returns an expression for the lock name of the owner id that is the expression `owner_id`. It is never NULL, because
/// a lock name of NULL is an error.
fn name(owner_id: &str) -> String {
    format!("CONCAT('dlock-handoff:',COALESCE(HEX({owner_id}),''))")
}

/// Hands off the lease of `owner_id`, releases the queue lock, and returns 1 if the hand-off was made. Changes no row.
/// It does not check that the row names `owner_id`: a hand-off of an owner id that the row does not name has no effect,
/// and the check would take the server longer than all other statements of this packet.
pub(in crate::store::mysql) fn hand_off(contender: &Contender, owner_id: OwnerId) -> String {
    format!(
        "SET @dlock_handed_off=IF(GET_LOCK({},0)=1,COALESCE(RELEASE_LOCK({}),0)+1,0);\
         SELECT {REQUEST},@dlock_handed_off>0 AS answer",
        name(&hex(owner_id.bytes())),
        queue_lock_name(&hex(contender.action.as_str())),
    )
}

/// Clears the hand-off of `owner_id` after the row was freed.
pub(super) fn clear_handoff(owner_id: OwnerId) -> String {
    format!("DO RELEASE_LOCK({});", name(&hex(owner_id.bytes())))
}

/// Returns the condition that the holder of a row of `dlock_lock` has handed off its lease.
pub(super) fn handoff_is_set() -> String {
    format!(
        "(server={HERE} AND session_id=IS_USED_LOCK({}))",
        name("owner_id")
    )
}
