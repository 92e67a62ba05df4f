//! What an operator does to an action by hand: end a lease, close the action, open it again.

use super::fence::{lowered, raised};
use super::record::{INTERVENED, ended_by_another, kept};
use super::{HERE, facts, gate_name, hex, hex_action};
use crate::store::Fate;
use crate::store::intervention::{Deed, Intervention};

/// Changes the row of an action as long as it has the token that the operator was shown, and records
/// that with its author; answers whether it is recorded. All of it in one transaction.
///
/// A lease is ended by a new token: its holder finds at its next renewal that the row is not its own
/// any more, and until then nobody else can have it, since the claim stays. So no other command
/// starts before this one is dead or its time is over. One that is only kept is free at once.
///
/// The fence is raised with the token, unless a transaction of the command has it locked.
///
/// With `wakes` it also answers which session to end, so that the holder looks at its row at once: the one
/// that the row names, if it is on this server and has the gate now.
pub(in crate::store::mysql) fn intervene(
    request: [u8; 8],
    intervention: &Intervention,
    wakes: bool,
) -> String {
    let Intervention {
        action,
        token,
        by,
        deed,
    } = intervention;
    let shown = format!("action={} AND token={token}", hex_action(action));
    let facts = facts(by);
    let [label, host, pid, _, reason, ..] = &facts;
    let (fate, closed) = match deed {
        Deed::Release => (Fate::Released, String::new()),
        Deed::Close(time) => {
            let time = time.as_micros();
            let until = format!(",closed_until=UTC_TIMESTAMP(6)+INTERVAL {time} MICROSECOND");
            (Fate::Closed, until)
        }
        Deed::Reopen => (Fate::Reopened, ",closed_until=NULL".to_owned()),
    };
    let (lower, record, broken, raise) = match deed {
        Deed::Reopen => Default::default(),
        Deed::Release | Deed::Close(_) => {
            let running =
                format!("token={token} AND claim IS NOT NULL AND kept=0 AND broken_at IS NULL");
            (
                lowered(action),
                ended_by_another(action, Fate::Broken, &running),
                // Carried out from left to right.
                ",broken_at=IF(claim IS NULL OR kept=1,NULL,COALESCE(broken_at,UTC_TIMESTAMP(6))),\
                 claim=IF(kept=1,NULL,claim),kept=0",
                raised(action, "TRUE"),
            )
        }
    };
    let session = match wakes {
        true => format!(
            "(SELECT session_id FROM dlock_lock WHERE action={} AND claim IS NOT NULL \
             AND server={HERE} AND gated=1 AND session_id=IS_USED_LOCK({}))",
            hex_action(action),
            gate_name(action),
        ),
        false => "NULL".to_owned(),
    };
    format!(
        "BEGIN;{lower}INSERT INTO dlock_run ({kept},deed,began_at,ended_at,ending) \
         SELECT action,token,{who},{INTERVENED},UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'{word}' \
         FROM dlock_lock WHERE {shown} FOR UPDATE \
         ON DUPLICATE KEY UPDATE ended_at=dlock_run.ended_at;{record}\
         UPDATE dlock_lock SET operator={label},reason={reason}{closed}{broken},\
         token=GREATEST(token+1,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))) \
         WHERE {shown};{raise}COMMIT;\
         SELECT {request} AS request,COUNT(*) AS answer,{session} AS session FROM dlock_run \
         WHERE {shown} \
         AND deed={INTERVENED} AND ending='{word}' AND host={host} AND pid={pid}",
        kept = kept(),
        who = facts.join(","),
        word = fate.word(),
        request = hex(&request),
    )
}

/// Ends another session.
pub(in crate::store::mysql) fn wake(request: [u8; 8], session: u64) -> String {
    format!(
        "KILL {session};SELECT {} AS request,1 AS answer",
        hex(&request)
    )
}
