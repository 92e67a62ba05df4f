//! What the model's server keeps of the action, as it is compared.

use crate::observed::{Rows, word};
use crate::server::Server;
use crate::time::Tick;

/// What `server` keeps at tick `now`, whose clock is right.
pub(crate) fn rows(server: &Server, now: Tick) -> Rows {
    let Server {
        row,
        gate,
        line,
        handed_off,
        history,
        ..
    } = server;
    let clock = now.cast_signed();
    let mut handed_off = handed_off.clone();
    handed_off.sort_unstable_by_key(|(claim, _)| *claim);
    handed_off.dedup();
    let runs = history.iter();
    Rows {
        claim: row.claim,
        token: row.token,
        renewals: row.renewals.into(),
        gated: row.gated,
        session: row.session,
        broken: row.broken,
        left: row.claim.map(|_| i64::from(row.expires - clock)),
        closed: row
            .closed
            .map_or(0, |until| i64::from((until - clock).max(0))),
        line: line
            .iter()
            .map(|place| (place.claim, place.session))
            .collect(),
        runs: runs.map(|(token, fate)| (*token, word(*fate))).collect(),
        gate: gate.first().copied(),
        handed_off,
    }
}
