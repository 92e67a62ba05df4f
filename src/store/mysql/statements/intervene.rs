//! What an operator does to an action by hand: end a lease, close the action, open it again.

use super::fence::{lowered, raised};
use super::record::{INTERVENED, ended_by_another, entry};
use super::{HERE, REQUEST, SERVER_TIME, facts, gate_name, hex};
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
pub(in crate::store::mysql) fn intervene(intervention: &Intervention, wakes: bool) -> String {
    let Intervention {
        action,
        token,
        by,
        deed,
    } = intervention;
    let action_hex = hex(action.as_str());
    let shown = format!("action={action_hex} AND token={token}");
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
            "(SELECT session_id FROM dlock_lock WHERE action={action_hex} AND claim IS NOT NULL \
             AND server={HERE} AND gated=1 AND session_id=IS_USED_LOCK({}))",
            gate_name(&action_hex),
        ),
        false => "NULL".to_owned(),
    };
    let entry = entry(
        fate,
        "deed,began_at",
        &format!(
            "action,token,{},{INTERVENED},UTC_TIMESTAMP(6)",
            facts.join(",")
        ),
        &format!("dlock_lock WHERE {shown} FOR UPDATE"),
    );
    format!(
        "BEGIN;{lower}{entry}{record}\
         UPDATE dlock_lock SET operator={label},reason={reason}{closed}{broken},\
         token=GREATEST(token+1,{SERVER_TIME}) WHERE {shown};{raise}COMMIT;\
         SELECT {REQUEST},COUNT(*) AS answer,{session} AS session FROM dlock_run \
         WHERE {shown} AND deed={INTERVENED} AND ending='{word}' AND host={host} AND pid={pid}",
        word = fate.word(),
    )
}

/// Ends another session.
pub(in crate::store::mysql) fn wake(session: u64) -> String {
    format!("KILL {session};SELECT {REQUEST},1 AS answer")
}
