//! Standing in line: a place, the wait at the gate, and what can be seen of those who wait.

use super::{
    HERE, REQUEST, SESSIONS, SESSIONS_LISTED, Selection, ago, assigned, gate_name, gate_taken, hex,
};
use crate::lease::Claim;
use crate::lease::action::Action;
use crate::store::{Contender, Gate, POLLER_LIFE, Place, Turn};

/// The longest wait for a named lock that both servers take: a year.
const LONGEST_STAND: u64 = 31_536_000;

/// Takes a place in the line, or keeps the one that this claim has; then it only notes where we
/// are now and that we are still there. Changes one row, found by its claim.
///
/// The DELETE finds no row: it is there to be refused now, with the grants in the message, and not
/// when the command has run and the place is to be cleared. It comes first: what is said between the
/// INSERT and a wait at the gate is time in which somebody behind may come before.
pub(in crate::store::mysql) fn queue(contender: &Contender, place: Place) -> String {
    let polls = u8::from(place.gate == Gate::Absent);
    let now = format!(
        "polls={polls},server={HERE},session_id=CONNECTION_ID(),account=CURRENT_USER(),\
         seen_at=UTC_TIMESTAMP(6)"
    );
    format!(
        "DELETE FROM dlock_waiter WHERE position=0;\
         INSERT INTO dlock_waiter SET action={},claim={},{},since=UTC_TIMESTAMP(6),{now} \
         ON DUPLICATE KEY UPDATE {now};",
        hex(contender.action.as_str()),
        hex(place.claim.bytes()),
        assigned(&contender.holder),
    )
}

/// Gives up the place of `claim` in the line.
pub(super) fn place_given_up(claim: Claim) -> String {
    format!(
        "DELETE FROM dlock_waiter WHERE claim={};",
        hex(claim.bytes())
    )
}

/// Takes a place in the line, waits for the gate, as long as `turn` says rounded up or for ever, and
/// answers whether the server says that it is ours. Both in one packet, so that places and the gate's
/// own queue have the same order as far as possible. Before that it clears away the places, each with its
/// session, in `gone`, each only if its session is still the one that was seen to be gone.
pub(in crate::store::mysql) fn stand(
    contender: &Contender,
    turn: &Turn,
    gone: &[(u64, u64)],
) -> String {
    let clear: Vec<String> = gone
        .iter()
        .map(|(position, session)| {
            format!("DELETE FROM dlock_waiter WHERE position={position} AND session_id={session};")
        })
        .collect();
    let seconds = turn.patience.map_or(LONGEST_STAND, |patience| {
        (patience.as_secs() + 1).min(LONGEST_STAND)
    });
    let place = Place {
        claim: turn.claim,
        gate: Gate::Used,
    };
    format!(
        "{}SET @dlock_gate={};{}SELECT {REQUEST},{} AS answer",
        clear.concat(),
        gate_name(&hex(contender.action.as_str())),
        queue(contender, place),
        gate_taken("@dlock_gate", seconds)
    )
}

/// Lists the waiters of the actions in `selection`, in order, with whether each one's session is
/// there as far as our account can see: that of another account is hidden without the PROCESS
/// privilege, that on another server always. Yields one row at least, as a look does.
pub(super) fn waiters(selection: Selection) -> String {
    format!(
        "SELECT {REQUEST},w.*,{waiting} AS waiting_us,\
         CASE WHEN w.polls=1 THEN NOT {silent} \
         WHEN w.server<>{HERE} THEN NULL WHEN p.id IS NOT NULL THEN 1 \
         WHEN w.account=CURRENT_USER() AND {SESSIONS_LISTED} THEN 0 ELSE NULL END AS alive \
         FROM (SELECT 1) AS one LEFT JOIN (dlock_waiter AS w \
         LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id AND w.server={HERE}) \
         ON {selected} AND NOT EXISTS(\
         SELECT 1 FROM dlock_lock AS h WHERE h.action=w.action AND h.claim=w.claim) \
         ORDER BY w.position",
        waiting = ago("w.since"),
        silent = silent(),
        selected = selection.includes("w.action"),
    )
}

/// The columns about the line of `action`: who has the gate, how many wait in front of `place` (those are
/// not counted when the row is ours), and since when the first does.
pub(super) fn line(action: &str, place: Place) -> String {
    let keeper = match place.gate {
        Gate::Used => {
            let name = gate_name(action);
            format!(
                "IS_USED_LOCK({name}) AS keeper,CONNECTION_ID() AS session,\
                 (IS_USED_LOCK({name})=l.session_id AND l.gated=1 AND l.server={HERE}) OR EXISTS(\
                 SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action \
                 AND w.session_id=IS_USED_LOCK({name}) AND w.server={HERE}) AS keeper_known,"
            )
        }
        Gate::Absent => String::new(),
    };
    let claim = hex(place.claim.bytes());
    let waits = "w.action=l.action AND NOT w.claim<=>l.claim";
    format!(
        ",{keeper}IF(l.claim={claim},0,(SELECT COUNT(*) FROM dlock_waiter AS w \
         WHERE {waits} AND w.claim<>{claim} AND NOT {silent} AND w.position<COALESCE(\
         (SELECT m.position FROM dlock_waiter AS m WHERE m.claim={claim}),~0))) AS ahead,\
         (SELECT {first} FROM dlock_waiter AS w WHERE {waits}) AS first_us",
        silent = silent(),
        first = ago("MIN(w.since)"),
    )
}

/// Lists the places in the line of `action` of which the session is gone. Only sessions of our own account
/// on this server can be judged, those on another server by their age alone. Only the first places are
/// looked at: among a thousand waiters each newcomer would compare a thousand places with as many sessions.
pub(in crate::store::mysql) fn gone(action: &Action) -> String {
    format!(
        "SELECT {REQUEST},w.position,w.session_id \
         FROM (SELECT * FROM dlock_waiter WHERE action={} ORDER BY position LIMIT 20) AS w \
         LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id \
         WHERE {} OR (w.polls=0 AND IF(w.server={HERE},\
         w.account=CURRENT_USER() AND p.id IS NULL AND {SESSIONS_LISTED},\
         w.seen_at<UTC_TIMESTAMP(6)-INTERVAL 1 DAY))",
        hex(action.as_str()),
        silent()
    )
}

/// A waiter `w` that polls and has not been seen for long enough to be gone.
fn silent() -> String {
    format!(
        "(w.polls=1 AND w.seen_at<UTC_TIMESTAMP(6)-INTERVAL {} MICROSECOND)",
        POLLER_LIFE.as_micros()
    )
}
