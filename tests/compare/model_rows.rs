//! The rows of the model's server, converted to the form that is compared with the rows of a real server.

use crate::observed::{Rows, SlotRow, is_lease, word};
use crate::server::{Row, Server, Slot};
use crate::time::Tick;

/// Returns the rows of `server` at tick `now`. The server's clock must show the true time.
pub(crate) fn rows(server: &Server, now: Tick) -> Rows {
    let Server {
        row,
        queue_lock,
        queue,
        handed_off,
        history,
        slots,
        holder_locks,
        ..
    } = server;
    let clock = now.cast_signed();
    let mut handed_off = handed_off.clone();
    handed_off.sort_unstable_by_key(|(owner_id, _)| *owner_id);
    handed_off.dedup();
    let mut holder_locks = holder_locks.clone();
    holder_locks.sort_unstable_by_key(|(owner_id, _)| *owner_id);
    let expires_in = |row: &Row| is_lease(row.owner_id).then(|| i64::from(row.expires - clock));
    let slots = (1..)
        .zip(slots)
        .map(|(number, Slot { limit, row })| SlotRow {
            number,
            limit: row.owner_id.map(|_| *limit),
            owner_id: row.owner_id,
            token: row.token,
            renewals: row.renewals.into(),
            has_queue_lock: row.has_queue_lock,
            session: row.session,
            revoked: row.revoked,
            expires_in: expires_in(row),
            note: row.note.map(|note| note.token),
        });
    let runs = history.iter();
    Rows {
        owner_id: row.owner_id,
        token: row.token,
        renewals: row.renewals.into(),
        has_queue_lock: row.has_queue_lock,
        session: row.session,
        revoked: row.revoked,
        expires_in: expires_in(row),
        paused: row
            .paused
            .map_or(0, |until| i64::from((until - clock).max(0))),
        note: row.note.map(|note| note.token),
        may_have_noted_slots: row.may_have_noted_slots,
        slots: slots.collect(),
        queue: queue
            .iter()
            .map(|entry| (entry.owner_id, entry.session))
            .collect(),
        runs: runs
            .map(|(token, outcome)| (*token, word(*outcome)))
            .collect(),
        queue_lock: queue_lock.first().copied(),
        handed_off,
        holder_locks,
    }
}
