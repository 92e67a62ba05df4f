//! What is written down of runs, and when it makes another run needless.
//!
//! The transaction that ends a run records it: that of the holder's release, or that of the contender
//! that takes the lease over. Recording it with the grant would cost every grant one more INSERT.

use std::time::Duration;

use super::{CHANGED, FACTS, REQUEST, SCHEMA_VERSION, Selection, ago, facts, hex};
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::once::{Key, Once};
use crate::store::{Contender, Fate, Holder, Run};

/// How seldom the history is pruned. Each time costs the release the reading of all that is kept;
/// in exchange there may be some more runs in it than were asked for. Tokens are microseconds, and
/// so as good as random here.
const PRUNED_EVERY: u64 = 16;

/// What an entry is about that is no run: the column `deed`.
const FORGOTTEN: u8 = 1;
pub(super) const INTERVENED: u8 = 2;

/// A condition that holds while there is a success that makes a run of the contender needless, where the
/// columns of the action's row can be named.
pub(super) fn needless(contender: &Contender) -> Option<String> {
    Some(match contender.once.as_ref()? {
        Once::Ever(key) => format!(
            "EXISTS(SELECT 1 FROM dlock_done AS d WHERE d.action={} AND d.once_key={})",
            hex(contender.action.as_str()),
            hex(key.as_str())
        ),
        Once::Per(period) => recent(*period),
    })
}

/// Whether the last success of the action is younger than `period`; never NULL. One that lies in
/// the future, since the server's clock was set back, counts by its distance: it must not forbid
/// all runs until that time has come again.
fn recent(period: Duration) -> String {
    let ago = ago("succeeded_at");
    format!("COALESCE(ABS({ago})<{},FALSE)", period.as_micros())
}

/// The columns of a look at row `l` that tell of a success which makes a run needless, and the join
/// that they need.
pub(super) fn success(contender: &Contender) -> (String, String) {
    let columns = |token: &str, holder: &str, at: &str| {
        let ago = ago(at);
        format!(",{token} AS done_token,{holder} AS done_holder,{at} AS done_at,{ago} AS done_us")
    };
    match &contender.once {
        None => (String::new(), String::new()),
        Some(Once::Ever(key)) => (
            columns("d.token", "d.holder", "d.done_at"),
            format!(
                " LEFT JOIN dlock_done AS d ON d.action={} AND d.once_key={}",
                hex(contender.action.as_str()),
                hex(key.as_str())
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

/// Adds an entry to the history: the columns `more` of it behind those of the holder's facts, with the
/// `values` of all these `from` a row. An entry that is there already stays as it is.
pub(super) fn entry(fate: Fate, more: &str, values: &str, from: &str) -> String {
    let number = fate
        .number()
        .map_or("NULL".to_owned(), |number| number.to_string());
    format!(
        "INSERT INTO dlock_run (action,token,{FACTS},{more},ended_at,ending,number) \
         SELECT {values},UTC_TIMESTAMP(6),'{word}',{number} FROM {from} \
         ON DUPLICATE KEY UPDATE ended_at=dlock_run.ended_at;",
        word = fate.word(),
    )
}

/// Records that the run of the row of `action` ended as `fate`, if the row meets `condition`, and
/// leaves the row locked. A run that is recorded already stays as it is: its end was recorded, and
/// the lease kept.
pub(super) fn ended_by_another(action: &Action, fate: Fate, condition: &str) -> String {
    entry(
        fate,
        "began_at",
        &format!("action,token,{FACTS},acquired_at"),
        &format!(
            "dlock_lock WHERE action={} AND {condition} FOR UPDATE",
            hex(action.as_str())
        ),
    )
}

/// An expression that tells how the run of `token` ended according to the history; NULL where it has no
/// entry, or where none is kept.
pub(super) fn ended_as(contender: &Contender, token: Token) -> String {
    match contender.history {
        0 => "NULL".to_owned(),
        _ => format!(
            "(SELECT ending FROM dlock_run WHERE action={} AND token={token} AND deed=0)",
            hex(contender.action.as_str()),
        ),
    }
}

/// Records the end of a run, and its success where that makes others needless, in the transaction of
/// the UPDATE that freed the row: unless the condition `freed` holds nothing is recorded.
///
/// Literals and no SELECT of the row: that takes the server half as long again.
pub(super) fn ended(contender: &Contender, token: Token, run: Run, freed: &str) -> String {
    let key = match &contender.once {
        Some(Once::Ever(key)) => Some(hex(key.as_str())),
        Some(Once::Per(_)) | None => None,
    };
    let values = format!(
        "{},{token},{},{}",
        hex(contender.action.as_str()),
        facts(&contender.holder).join(","),
        key.as_deref().unwrap_or("NULL"),
    );
    let success = match key.is_some() && run.fate.is_success() {
        true => format!(
            "INSERT INTO dlock_done (action,token,{FACTS},once_key,done_at) \
             SELECT {values},UTC_TIMESTAMP(6) FROM DUAL \
             WHERE {freed} ON DUPLICATE KEY UPDATE done_at=dlock_done.done_at;"
        ),
        false => String::new(),
    };
    if contender.history == 0 {
        return success;
    }
    let took = run.took.as_micros();
    let entry = entry(
        run.fate,
        "once_key,began_at",
        &format!("{values},UTC_TIMESTAMP(6)-INTERVAL {took} MICROSECOND"),
        &format!("DUAL WHERE {freed}"),
    );
    format!("{success}{entry}")
}

/// Leaves as many entries of the action in the history as are kept; with fewer there is no token to
/// compare with, and nothing goes. One run in sixteen clears away what the others have left.
pub(super) fn pruned(contender: &Contender, token: Token) -> String {
    let kept = contender.history;
    if kept == 0 || !token.0.is_multiple_of(PRUNED_EVERY) {
        return String::new();
    }
    let action = hex(contender.action.as_str());
    format!(
        "DELETE FROM dlock_run WHERE action={action} AND token<=(SELECT token FROM (\
         SELECT token FROM dlock_run WHERE action={action} ORDER BY token DESC LIMIT 1 \
         OFFSET {kept}) AS oldest);"
    )
}

/// Forgets a success, and records who did it, in one transaction. Answers whether there was one.
pub(in crate::store::mysql) fn forget(action: &Action, key: &Key, who: &Holder) -> String {
    let success = format!(
        "dlock_done WHERE action={} AND once_key={}",
        hex(action.as_str()),
        hex(key.as_str())
    );
    let entry = entry(
        Fate::Forgotten,
        "deed,once_key,began_at",
        &format!(
            "action,token,{},{FORGOTTEN},once_key,UTC_TIMESTAMP(6)",
            facts(who).join(",")
        ),
        &format!("{success} FOR UPDATE"),
    );
    format!(
        "BEGIN;{entry}DELETE FROM {success};SET {CHANGED}=ROW_COUNT();COMMIT;\
         SELECT {REQUEST},{CHANGED}>0 AS answer"
    )
}

/// Reads the last `limit` entries of the history, newest first; one row at least, as a look does.
pub(in crate::store::mysql) fn entries(selection: Selection, limit: u32) -> String {
    format!(
        "SELECT {REQUEST},{SCHEMA_VERSION} AS version,r.*,\
         TIMESTAMPDIFF(MICROSECOND,r.began_at,r.ended_at) AS took_us,{ended} AS ended_us \
         FROM (SELECT 1) AS one LEFT JOIN dlock_run AS r ON {selected} \
         ORDER BY r.ended_at DESC,r.token DESC LIMIT {limit}",
        ended = ago("r.ended_at"),
        selected = selection.includes("r.action"),
    )
}

/// An expression that tells whether the success of the grant `token` is recorded; NULL where
/// nobody asks for it.
pub(super) fn recorded(contender: &Contender, token: Token, fate: Fate) -> String {
    let action = hex(contender.action.as_str());
    match &contender.once {
        Some(Once::Ever(key)) if fate.is_success() => format!(
            "EXISTS(SELECT 1 FROM dlock_done WHERE action={action} AND once_key={} \
             AND token={token})",
            hex(key.as_str())
        ),
        // A later success serves as well: it is younger.
        Some(Once::Per(_)) if fate.is_success() => format!(
            "EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} AND succeeded_token>={token})"
        ),
        _ => "NULL".to_owned(),
    }
}
