//! What is written down of runs, and when it makes another run needless.
//!
//! A run is recorded in the transaction that ends it and by whoever that is: the holder with its
//! release, or who takes its lease over. Recording it with the grant instead costs every grant an
//! INSERT more.

use std::time::Duration;

use super::{CHANGED, FACTS, Selection, facts, facts_of, hex, hex_action};
use crate::lease::action::Action;
use crate::lease::once::{Key, Once};
use crate::lease::{Claim, Token};
use crate::store::{Contender, Fate, Holder, Run};

/// How seldom the history is pruned. Each time costs the release the reading of all that is kept;
/// in exchange there may be some more runs in it than were asked for. Tokens are microseconds, and
/// so as good as random here.
const PRUNED_EVERY: u64 = 16;

/// What an entry is about that is no run: the column `deed`.
const FORGOTTEN: u8 = 1;
pub(super) const INTERVENED: u8 = 2;

/// The columns of a run that come from the row as they are.
pub(super) fn kept() -> String {
    format!("action,token,{}", FACTS.join(","))
}

pub(super) fn hex_key(key: &Key) -> String {
    hex(key.as_str().as_bytes())
}

/// A condition that holds while there is a success that makes a run of the contender needless.
pub(super) fn needless(contender: &Contender) -> Option<String> {
    match contender.once.as_ref()? {
        Once::Ever(_) => needless_row(contender),
        Once::Per(_) => needless_row(contender).map(|needless| {
            let action = hex_action(&contender.action);
            format!("EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} AND {needless})")
        }),
    }
}

/// The same where the columns of the action's row can be named.
pub(super) fn needless_row(contender: &Contender) -> Option<String> {
    Some(match contender.once.as_ref()? {
        Once::Ever(key) => format!(
            "EXISTS(SELECT 1 FROM dlock_done AS d WHERE d.action={} AND d.once_key={})",
            hex_action(&contender.action),
            hex_key(key)
        ),
        Once::Per(period) => recent(*period),
    })
}

/// Whether the last success of the action is younger than `period`; never NULL. One that lies in
/// the future, since the server's clock was set back, counts by its distance: it must not forbid
/// all runs until that time has come again.
fn recent(period: Duration) -> String {
    format!(
        "COALESCE(ABS(TIMESTAMPDIFF(MICROSECOND,succeeded_at,UTC_TIMESTAMP(6)))<{},FALSE)",
        period.as_micros()
    )
}

/// The columns of a look at row `l` that tell of a success which makes a run needless, and the join
/// that they need.
pub(super) fn success(action: &Action, once: Option<&Once>) -> (String, String) {
    let columns = |token: &str, holder: &str, at: &str| {
        format!(
            ",{token} AS done_token,{holder} AS done_holder,{at} AS done_at,\
             TIMESTAMPDIFF(MICROSECOND,{at},UTC_TIMESTAMP(6)) AS done_us"
        )
    };
    match once {
        None => (String::new(), String::new()),
        Some(Once::Ever(key)) => (
            columns("d.token", "d.holder", "d.done_at"),
            format!(
                " LEFT JOIN dlock_done AS d ON d.action={} AND d.once_key={}",
                hex_action(action),
                hex_key(key)
            ),
        ),
        Some(Once::Per(period)) => {
            let token = format!("IF({},l.succeeded_token,NULL)", recent(*period));
            (
                columns(&token, "l.succeeded_by", "l.succeeded_at"),
                String::new(),
            )
        }
    }
}

/// Is refused now, with the grants in the message, where the success could not be recorded once
/// the command has run. Changes nothing.
pub(in crate::store::mysql) fn may_record(contender: &Contender) -> &'static str {
    match contender.once {
        Some(Once::Ever(_)) => {
            "INSERT INTO dlock_done SELECT * FROM dlock_done AS d WHERE FALSE \
             ON DUPLICATE KEY UPDATE done_at=d.done_at;"
        }
        Some(Once::Per(_)) | None => "",
    }
}

/// Records that the run of the row of `action` ended as `fate`, if the row meets `condition`, and
/// leaves the row locked. A run that is recorded already stays as it is: its end was recorded, and
/// the lease kept.
pub(super) fn ended_by_another(action: &Action, fate: Fate, condition: &str) -> String {
    format!(
        "INSERT INTO dlock_run ({kept},began_at,ended_at,ending) \
         SELECT {kept},acquired_at,UTC_TIMESTAMP(6),'{word}' FROM dlock_lock \
         WHERE action={action} AND {condition} FOR UPDATE \
         ON DUPLICATE KEY UPDATE ended_at=dlock_run.ended_at;",
        kept = kept(),
        action = hex_action(action),
        word = fate.word(),
    )
}

/// An expression that tells how the run of `token` ended according to the history; NULL where it has no
/// entry, or where none is kept.
pub(super) fn ended_as(contender: &Contender, token: Token) -> String {
    match contender.history {
        0 => "NULL".to_owned(),
        _ => format!(
            "(SELECT ending FROM dlock_run WHERE action={} AND token={token} AND deed=0)",
            hex_action(&contender.action),
        ),
    }
}

/// Records the end of a run, and its success where that makes others needless, in the transaction of
/// the UPDATE that freed the row: unless the condition `freed` holds nothing is recorded.
///
/// Literals and no SELECT of the row: that takes the server half as long again.
pub(super) fn ended(contender: &Contender, token: Token, run: Run, freed: &str) -> String {
    let (kept, facts) = (kept(), facts(&contender.holder).join(","));
    let action = hex_action(&contender.action);
    let key = match &contender.once {
        Some(Once::Ever(key)) => Some(key),
        Some(Once::Per(_)) | None => None,
    };
    let key_hex = key.map_or_else(|| "NULL".to_owned(), hex_key);
    let success = match key.filter(|_| run.fate.is_success()) {
        Some(_) => format!(
            "INSERT INTO dlock_done ({kept},once_key,done_at) \
             SELECT {action},{token},{facts},{key_hex},UTC_TIMESTAMP(6) FROM DUAL \
             WHERE {freed} ON DUPLICATE KEY UPDATE done_at=dlock_done.done_at;"
        ),
        None => String::new(),
    };
    if contender.history == 0 {
        return success;
    }
    let number = run
        .fate
        .number()
        .map_or_else(|| "NULL".to_owned(), |number| number.to_string());
    format!(
        "{success}INSERT INTO dlock_run ({kept},once_key,began_at,ended_at,ending,number) \
         SELECT {action},{token},{facts},{key_hex},\
         UTC_TIMESTAMP(6)-INTERVAL {} MICROSECOND,UTC_TIMESTAMP(6),'{}',{number} FROM DUAL \
         WHERE {freed} ON DUPLICATE KEY UPDATE ended_at=dlock_run.ended_at;",
        run.took.as_micros(),
        run.fate.word(),
    )
}

/// Leaves as many entries of the action in the history as are kept; with fewer there is no token to
/// compare with, and nothing goes. One run in sixteen clears away what the others have left.
pub(super) fn pruned(contender: &Contender, token: Token) -> String {
    let kept = contender.history;
    if kept == 0 || !token.0.is_multiple_of(PRUNED_EVERY) {
        return String::new();
    }
    let action = hex_action(&contender.action);
    format!(
        "DELETE FROM dlock_run WHERE action={action} AND token<=(SELECT token FROM (\
         SELECT token FROM dlock_run WHERE action={action} ORDER BY token DESC LIMIT 1 \
         OFFSET {kept}) AS oldest);"
    )
}

/// Frees a row that names `claim` and has the token `broken`, by which an operator has ended the lease. By
/// the token, since the request may arrive once more while we hold another lease. Records the run of
/// `token` as broken, if it is the last that had the row and somebody freed it by hand. Answers whether
/// that row names us no more.
pub(in crate::store::mysql) fn settle(
    request: [u8; 8],
    contender: &Contender,
    claim: Claim,
    broken: Option<Token>,
    token: Option<Token>,
) -> String {
    let record = token.map_or_else(String::new, |token| {
        let freed = format!("token={token} AND claim IS NULL");
        ended_by_another(&contender.action, Fate::Broken, &freed)
    });
    let ours = format!(
        "action={} AND claim={} AND broken_at IS NOT NULL AND token={}",
        hex_action(&contender.action),
        hex(claim.bytes()),
        broken.unwrap_or(Token(0)),
    );
    format!(
        "UPDATE dlock_lock SET claim=NULL,expires_at=UTC_TIMESTAMP(6),released_at=UTC_TIMESTAMP(6) \
         WHERE {ours};{record}SELECT {} AS request,COUNT(*)=0 AS answer FROM dlock_lock WHERE {ours}",
        hex(&request),
    )
}

/// Forgets a success, and records who did it, in one transaction. Answers whether there was one.
pub(in crate::store::mysql) fn forget(
    request: [u8; 8],
    action: &Action,
    key: &Key,
    who: &Holder,
) -> String {
    let which = format!(
        "action={} AND once_key={}",
        hex_action(action),
        hex_key(key)
    );
    format!(
        "BEGIN;INSERT INTO dlock_run ({kept},deed,once_key,began_at,ended_at,ending) \
         SELECT action,token,{facts},{FORGOTTEN},once_key,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'{word}' \
         FROM dlock_done WHERE {which} FOR UPDATE \
         ON DUPLICATE KEY UPDATE ended_at=dlock_run.ended_at;\
         DELETE FROM dlock_done WHERE {which};SET {CHANGED}=ROW_COUNT();COMMIT;\
         SELECT {request} AS request,{CHANGED}>0 AS answer",
        kept = kept(),
        facts = facts(who).join(","),
        word = Fate::Forgotten.word(),
        request = hex(&request),
    )
}

/// Reads the last `limit` entries of the history, newest first.
pub(in crate::store::mysql) fn entries(
    request: [u8; 8],
    selection: Selection,
    limit: u32,
) -> String {
    let condition = match selection {
        Selection::Named(actions) if !actions.is_empty() => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("r.action IN ({})", names.join(","))
        }
        _ => "TRUE".to_owned(),
    };
    format!(
        "SELECT {} AS request,(SELECT MAX(version) FROM dlock_schema) AS version,\
         r.action AS action,r.token AS token,r.once_key AS once_key,\
         {facts},\
         r.began_at AS began_at,r.ended_at AS ended_at,r.ending AS ending,r.number AS number,\
         TIMESTAMPDIFF(MICROSECOND,r.began_at,r.ended_at) AS took_us,\
         TIMESTAMPDIFF(MICROSECOND,r.ended_at,UTC_TIMESTAMP(6)) AS ended_us \
         FROM (SELECT 1) AS one LEFT JOIN dlock_run AS r ON {condition} \
         ORDER BY r.ended_at DESC,r.token DESC LIMIT {limit}",
        hex(&request),
        facts = facts_of("r"),
    )
}

/// An expression that tells whether the success of the grant `token` is recorded; NULL where
/// nobody asks for it.
pub(super) fn recorded(contender: &Contender, token: Token, fate: Fate) -> String {
    let action = hex_action(&contender.action);
    match &contender.once {
        Some(Once::Ever(key)) if fate.is_success() => format!(
            "EXISTS(SELECT 1 FROM dlock_done WHERE action={action} AND once_key={} \
             AND token={token})",
            hex_key(key)
        ),
        // A later success serves as well: it is younger.
        Some(Once::Per(_)) if fate.is_success() => format!(
            "EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} AND succeeded_token>={token})"
        ),
        _ => "NULL".to_owned(),
    }
}
