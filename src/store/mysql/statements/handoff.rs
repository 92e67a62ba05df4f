//! The hand-off is a holder's signal that its command is dead. The holder sends the hand-off before its release is
//! committed.
//!
//! A release and the next grant are two commits. If there is no hand-off, the server writes the first commit to disk
//! before it begins the second, although only the grant has to be durable. If there is one, a contender can be granted
//! the lease while the row still contains the previous holder, because the hand-off proves that this holder no longer
//! uses the lease.
//!
//! The hand-off is a named lock whose name contains the holder's owner id, a random number that no other session uses
//! for a lock. The hand-off counts only if the session in the row owns that lock, on the server in the row. A missing
//! lock is not a hand-off, so contenders never mistake an ended session or a stopped server for a hand-off. If there is
//! no hand-off, contenders wait until the row is freed or the lease may be taken over.

use super::fragments::{HERE, REQUEST, hex, queue_lock_name};
use crate::lease::OwnerId;
use crate::store::Contender;

/// Returns an SQL expression for the lock name of a hand-off. `owner_id` is an SQL expression for the owner id. The
/// name is never NULL, because a lock name of NULL is an error.
fn name(owner_id: &str) -> String {
    format!("CONCAT('dlock-handoff:',COALESCE(HEX({owner_id}),''))")
}

/// Hands off the lease of `owner_id`, releases the queue lock, and returns 1 if the hand-off was made. Changes no row.
///
/// The row must contain `owner_id` when the command has ended. Otherwise, the database has lost the grant, and the release
/// must not take a later grant for one that followed the hand-off. The packet does not check that the server accepts
/// writes: a server that does not, grants nothing.
pub(in crate::store::mysql) fn hand_off(contender: &Contender, owner_id: OwnerId) -> String {
    let action = hex(contender.action.as_str());
    let own = hex(owner_id.bytes());
    format!(
        "SELECT {REQUEST},IF(EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} AND owner_id={own}),\
         IF(GET_LOCK({},0)=1,COALESCE(RELEASE_LOCK({}),0)+1,0),0)>0 AS answer",
        name(&own),
        queue_lock_name(&action),
    )
}

/// Clears the hand-off of `owner_id` after the row has been freed.
pub(super) fn clear_handoff(owner_id: OwnerId) -> String {
    format!("DO RELEASE_LOCK({});", name(&hex(owner_id.bytes())))
}

/// Returns the condition that the holder in a row of `dlock_lock` has handed off its lease.
pub(super) fn handoff_is_set() -> String {
    format!(
        "(server={HERE} AND session_id=IS_USED_LOCK({}))",
        name("owner_id")
    )
}
