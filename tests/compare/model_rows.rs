//! The rows of the model's server, converted to the form that is compared with the rows of a real server.

use dlock::lease::limit::Limit;

use crate::observed::{LeaseRow, Rows, is_lease};
use crate::server::{Row, Server};
use crate::time::Tick;

/// Returns the rows of `server` at tick `now`. The server's clock must show the true time.
pub(crate) fn rows(server: &Server, now: Tick) -> Rows {
    let clock = now.cast_signed();
    let sorted = |locks: &[(u8, _)]| {
        let mut locks = locks.to_vec();
        locks.sort_unstable_by_key(|(owner_id, _)| *owner_id);
        locks.dedup();
        locks
    };
    let slots = server.slots.iter().zip(1..);
    let slots = slots.map(|(slot, number)| lease_row(&slot.row, number, Some(slot.limit), clock));
    let pause = server.row.paused.unwrap_or(clock);
    let runs = server.history.iter();
    let queue = server.queue.iter();
    Rows {
        leases: [lease_row(&server.row, 0, None, clock)]
            .into_iter()
            .chain(slots)
            .collect(),
        paused: i64::from((pause - clock).max(0)),
        queue: queue.map(|entry| (entry.owner_id, entry.session)).collect(),
        runs: runs
            .map(|(token, outcome)| (*token, outcome.as_str().to_owned()))
            .collect(),
        queue_lock: server.queue_lock.first().copied(),
        handed_off: sorted(&server.handed_off),
        holder_locks: sorted(&server.holder_locks),
    }
}

fn lease_row(row: &Row, number: u32, limit: Option<Limit>, clock: i8) -> LeaseRow {
    LeaseRow {
        number,
        limit: limit.filter(|_| row.owner_id.is_some()),
        owner_id: row.owner_id,
        token: row.token,
        renewals: row.renewals.into(),
        has_queue_lock: row.has_queue_lock,
        session: row.session,
        revoked: row.revoked,
        expires_in: is_lease(row.owner_id).then(|| i64::from(row.expires - clock)),
        note: row.note.map(|note| note.token),
        may_have_noted_slots: row.may_have_noted_slots,
    }
}
