//! The rows of the model's server, converted to the form that is compared with the rows of a real server.

use crate::observed::{Rows, word};
use crate::server::Server;
use crate::time::Tick;

/// Returns the rows of `server` at tick `now`. The server's clock must show the true time.
pub(crate) fn rows(server: &Server, now: Tick) -> Rows {
    let Server {
        row,
        queue_lock,
        queue,
        handed_off,
        history,
        ..
    } = server;
    let clock = now.cast_signed();
    let mut handed_off = handed_off.clone();
    handed_off.sort_unstable_by_key(|(owner_id, _)| *owner_id);
    handed_off.dedup();
    let runs = history.iter();
    Rows {
        owner_id: row.owner_id,
        token: row.token,
        renewals: row.renewals.into(),
        has_queue_lock: row.has_queue_lock,
        session: row.session,
        revoked: row.revoked,
        expires_in: row.owner_id.map(|_| i64::from(row.expires - clock)),
        paused: row
            .paused
            .map_or(0, |until| i64::from((until - clock).max(0))),
        note: row.note.map(|note| note.token),
        queue: queue
            .iter()
            .map(|entry| (entry.owner_id, entry.session))
            .collect(),
        runs: runs
            .map(|(token, outcome)| (*token, word(*outcome)))
            .collect(),
        queue_lock: queue_lock.first().copied(),
        handed_off,
    }
}
