//! Reads the leader, after a wait for its end, and changes the note of a lease.

use std::time::Duration;

use super::fragments::{REQUEST, SLOTS, hex, holder_lock_name, take_named_lock};
use super::select::{select_record, synchronized};
use crate::lease::{OwnerId, Token};
use crate::store::{Contender, LockRecord};

/// Reads the record of the contender's action. If there is a `leader`, first waits for the end of its session, for at most
/// the given time, which is a number of whole seconds.
///
/// The session of the leader owns the holder lock, so the wait costs the server nothing. When the lock is released, the
/// followers get it one after another, and each of them releases it at once. If the lock is free, although the record
/// contains the leader, the statement does not wait: the leader may be connected to another server.
pub(in crate::store::mysql) fn leader(
    contender: &Contender,
    leader: Option<(OwnerId, Duration)>,
) -> String {
    let wait = leader.map_or_else(String::new, |(owner_id, limit)| {
        let name = holder_lock_name(&hex(owner_id.bytes()));
        format!(
            "DO IF({}=1,RELEASE_LOCK({name}),0);",
            take_named_lock(&name, limit.as_secs())
        )
    });
    format!("{wait}{}", synchronized(&select_record(contender, None)))
}

/// Writes `note` to the lease with `token`, if it is current, and returns 1 if the lease contains the note. `record` shows
/// where the lease is.
pub(in crate::store::mysql) fn change_note(
    record: &LockRecord,
    token: Token,
    note: &str,
) -> String {
    let table = match record.is_shared() {
        true => SLOTS,
        false => "dlock_lock",
    };
    let current = format!(
        "action={} AND token={token} AND owner_id IS NOT NULL AND revoked_at IS NULL AND min_hold=0",
        hex(record.action.as_str())
    );
    let note = hex(note);
    format!(
        "UPDATE {table} SET note={note} WHERE {current};\
         SELECT {REQUEST},COUNT(*)>0 AS answer FROM {table} WHERE {current} AND note={note}"
    )
}
