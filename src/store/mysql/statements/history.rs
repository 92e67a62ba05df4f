//! Records of runs, and the conditions under which a recorded success makes another run unnecessary.
//!
//! A run is normally recorded in the transaction that ends its lease: the release by the holder, the take-over by a
//! contender, or the revocation by an operator. If a run were also recorded in the transaction of its grant, each grant
//! would need one more INSERT.

use std::time::Duration;

use super::super::schema::VERSION_COLUMNS;
use super::fragments::{CHANGED, FACTS, REQUEST, SLOTS, ago, facts, hex};
use super::selection::Selection;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::once::{Once, OnceKey};
use crate::mutant::{self, Safeguard};
use crate::store::{Contender, HistoryFilter, HistoryOutcome, HistorySince, Holder, RunRecord};

/// Average number of releases per pruning of the history. A release that prunes reads all entries of the action.
/// With a larger interval, the history may exceed its limit by more entries. The remainder of the token determines
/// which releases prune. Tokens are normally microseconds, so the remainders are practically random.
const PRUNE_INTERVAL: u64 = 16;

/// Largest interval in a statement, in microseconds: about 10 000 years.
const MAX_INTERVAL: u128 = 315_000_000_000_000_000;

/// Values of the column `kind` for entries that are not runs.
const FORGOTTEN: u8 = 1;
pub(super) const OPERATOR_ACTION: u8 = 2;

/// Returns the condition that a recorded success makes a run of the contender unnecessary. The condition uses columns
/// of the action's row. None without `--once`.
pub(super) fn is_unnecessary(contender: &Contender) -> Option<String> {
    Some(match contender.once.as_ref()? {
        Once::Ever(key) => format!(
            "EXISTS(SELECT 1 FROM dlock_success AS d WHERE d.action={} AND d.once_key={})",
            hex(contender.action.as_str()),
            hex(key.as_str())
        ),
        Once::Per(period) => recent(*period),
    })
}

/// Returns the condition that the latest success of the action is younger than `period`. The condition is never NULL.
/// If the server's clock was set back, the time of the success may be in the future. The absolute difference from the
/// current time then counts as the age of the success. Otherwise the success would prevent all runs until the clock
/// reached that time again.
fn recent(period: Duration) -> String {
    let ago = ago("succeeded_at");
    format!("COALESCE(ABS({ago})<{},FALSE)", period.as_micros())
}

/// Returns the columns of a success that makes a run unnecessary, for a SELECT from the row `l`, and the join that
/// these columns need. Both are empty without `--once`.
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
                " LEFT JOIN dlock_success AS d ON d.action={} AND d.once_key={}",
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

/// Returns a statement that fails if the account may not record a success in `dlock_success`, so that the error occurs
/// before the command runs instead of afterwards. The statement changes nothing. The result is empty if the contender
/// does not record successes in that table.
pub(in crate::store::mysql) fn may_record(contender: &Contender) -> &'static str {
    match contender.once {
        Some(Once::Ever(_)) => {
            "INSERT INTO dlock_success SELECT * FROM dlock_success AS d WHERE FALSE \
             ON DUPLICATE KEY UPDATE done_at=d.done_at;"
        }
        Some(Once::Per(_)) | None => "",
    }
}

/// Inserts an entry into the history. The columns are action, token, [`FACTS`] and `more`. `values` contains the
/// expressions for these columns, which are selected `from` a row. Does not change an existing entry.
pub(super) fn entry(outcome: HistoryOutcome, more: &str, values: &str, from: &str) -> String {
    entry_until("UTC_TIMESTAMP(6)", outcome, more, values, from)
}

/// Does the same as [`entry`] for an entry that ended at the time `ended_at`.
fn entry_until(
    ended_at: &str,
    outcome: HistoryOutcome,
    more: &str,
    values: &str,
    from: &str,
) -> String {
    let number = outcome
        .code()
        .map_or("NULL".to_owned(), |number| number.to_string());
    // The column of the next schema version, which only a test program has.
    let (recorder, three) = match mutant::is_disabled(Safeguard::PresentSchema) {
        true => (",recorder", ",4"),
        false => ("", ""),
    };
    format!(
        "INSERT INTO dlock_history (action,token,{FACTS},{more},ended_at,outcome,code{recorder}) \
         SELECT {values},{ended_at},'{word}',{number}{three} FROM {from} \
         ON DUPLICATE KEY UPDATE ended_at=dlock_history.ended_at;",
        word = outcome.as_str(),
    )
}

/// Records the run in the row of `table` that meets `condition` with `outcome`, and leaves the row locked. Does
/// not change a run that is already recorded, for example a run that has ended and whose lease is held for
/// `--min-hold`.
pub(super) fn insert_run_from_row(table: &str, outcome: HistoryOutcome, condition: &str) -> String {
    // A lost lease may have ended long before the next contender takes it over. The server's clock may have been set.
    let ended_at = match outcome {
        HistoryOutcome::Lost => "LEAST(UTC_TIMESTAMP(6),GREATEST(expires_at,acquired_at))",
        _ => "UTC_TIMESTAMP(6)",
    };
    // Tables without slots lack the column.
    let slot = match table {
        SLOTS => ",slot",
        _ => "",
    };
    entry_until(
        ended_at,
        outcome,
        &format!("started_at{slot}"),
        &format!("action,token,{FACTS},acquired_at{slot}"),
        &format!("{table} WHERE {condition} FOR UPDATE"),
    )
}

/// Returns an expression for the recorded outcome of the run of `token`. The expression is NULL if no outcome of the run
/// is recorded. If runs are not recorded in the history, the row still contains the most recent success.
pub(super) fn recorded_outcome(contender: &Contender, token: Token) -> String {
    let action = hex(contender.action.as_str());
    match contender.history {
        0 => format!(
            "(SELECT 'exited' FROM dlock_lock WHERE action={action} AND succeeded_token={token})"
        ),
        _ => format!(
            "(SELECT outcome FROM dlock_history WHERE action={action} AND token={token} AND kind=0)"
        ),
    }
}

/// Records a run and, with `--once`, its success, if the run succeeded. If the contender keeps no history, records only
/// the success. The caller runs the statements in the transaction of the UPDATE that frees the row. They have an effect
/// only if the condition `freed` holds.
///
/// The statements insert literals. If they selected the values from the row, the server would need about 50 % more
/// time.
pub(super) fn insert_run(
    contender: &Contender,
    token: Token,
    run: RunRecord,
    freed: &str,
) -> String {
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
    let success = match key.is_some() && run.outcome.is_success() {
        true => format!(
            "INSERT INTO dlock_success (action,token,{FACTS},once_key,done_at) \
             SELECT {values},UTC_TIMESTAMP(6) FROM DUAL \
             WHERE {freed} ON DUPLICATE KEY UPDATE done_at=dlock_success.done_at;"
        ),
        false => String::new(),
    };
    if contender.history == 0 {
        return success;
    }
    let (took, waited) = (run.duration.as_micros(), run.waited.as_micros());
    let or_null = |number: Option<u32>| number.map_or("NULL".to_owned(), |it| it.to_string());
    let unless_0 = |number: u32| or_null(Some(number).filter(|number| *number > 0));
    let sessions_ended = unless_0(run.sessions_ended);
    let processes_killed = unless_0(run.processes_killed);
    let dlock_status = or_null(run.dlock_status.map(u32::from));
    let (slot_column, slot) = match contender.limit.is_exclusive() {
        true => Default::default(),
        false => (
            ",slot",
            format!(
                ",(SELECT s.slot FROM dlock_slot AS s WHERE s.action={} AND s.token={token})",
                hex(contender.action.as_str())
            ),
        ),
    };
    let entry = entry(
        run.outcome,
        &format!(
            "once_key,started_at,sessions_ended,processes_killed,dlock_status,waited_us{slot_column}"
        ),
        &format!(
            "{values},UTC_TIMESTAMP(6)-INTERVAL {took} MICROSECOND,{sessions_ended},{processes_killed},{dlock_status},{waited}{slot}"
        ),
        &format!("DUAL WHERE {freed}"),
    );
    format!("{success}{entry}")
}

/// Deletes the oldest entries of the action, so that at most `contender.history` entries remain. If the action has no
/// more entries than that, there is no token to compare with, and nothing is deleted. On average, one in
/// [`PRUNE_INTERVAL`] releases prunes the history.
pub(super) fn prune_history(contender: &Contender, token: Token) -> String {
    let kept = contender.history;
    if kept == 0 || !token.0.is_multiple_of(PRUNE_INTERVAL) {
        return String::new();
    }
    let action = hex(contender.action.as_str());
    format!(
        "DELETE FROM dlock_history WHERE action={action} AND token<=(SELECT token FROM (\
         SELECT token FROM dlock_history WHERE action={action} ORDER BY token DESC LIMIT 1 \
         OFFSET {kept}) AS oldest);"
    )
}

/// Deletes a success, and records that `operator` deleted it, in one transaction. Returns 1 if there was a success.
pub(in crate::store::mysql) fn forget(action: &Action, key: &OnceKey, operator: &Holder) -> String {
    let success = format!(
        "dlock_success WHERE action={} AND once_key={}",
        hex(action.as_str()),
        hex(key.as_str())
    );
    let entry = entry(
        HistoryOutcome::Forgotten,
        "kind,once_key,started_at",
        &format!(
            "action,token,{},{FORGOTTEN},once_key,UTC_TIMESTAMP(6)",
            facts(operator).join(",")
        ),
        &format!("{success} FOR UPDATE"),
    );
    format!(
        "BEGIN;{entry}DELETE FROM {success};SET {CHANGED}=ROW_COUNT();COMMIT;\
         SELECT {REQUEST},{CHANGED}>0 AS answer"
    )
}

/// Reads the most recent entries of the history that meet `filter`, newest first. Returns at least one row, as
/// `select_record` does. An operator's entry for a revocation has the token of the revoked run.
pub(in crate::store::mysql) fn entries(selection: Selection, filter: &HistoryFilter) -> String {
    let failed = match filter.failed {
        true => " AND r.kind=0 AND NOT (r.outcome='exited' AND COALESCE(r.code,1)=0)",
        false => "",
    };
    let since = filter.since.map_or_else(String::new, |since| {
        let earliest = earliest_end(since);
        // A time that the server cannot represent is NULL. It is before all entries.
        format!(" AND NOT COALESCE(r.ended_at<{earliest},FALSE)")
    });
    format!(
        "SELECT {REQUEST},{VERSION_COLUMNS},r.*,\
         TIMESTAMPDIFF(MICROSECOND,r.started_at,r.ended_at) AS took_us,{ended} AS ended_us,\
         IF(r.outcome='revoked',(SELECT o.holder FROM dlock_history AS o \
         WHERE o.action=r.action AND o.token=r.token AND o.kind={OPERATOR_ACTION}),NULL) AS revoked_by \
         FROM (SELECT 1) AS one LEFT JOIN dlock_history AS r ON {selected}{failed}{since} \
         ORDER BY r.ended_at DESC,r.token DESC LIMIT {limit}",
        ended = ago("r.ended_at"),
        selected = selection.includes("r.action"),
        limit = filter.limit,
    )
}

/// Returns an expression for the time `since`.
fn earliest_end(since: HistorySince) -> String {
    let micros = |duration: Duration| duration.as_micros().min(MAX_INTERVAL);
    match since {
        HistorySince::Ago(ago) => {
            format!("UTC_TIMESTAMP(6)-INTERVAL {} MICROSECOND", micros(ago))
        }
        HistorySince::At(at) => format!(
            "TIMESTAMPADD(MICROSECOND,{},'1970-01-01 00:00:00')",
            micros(at)
        ),
    }
}

/// Returns an expression that is 1 if the run of the grant `token` counts as done, otherwise 0: its success is recorded, or
/// that of another run, and this release has freed the lease or its run is recorded. With a key, the first success
/// stays, and a run beside it in another slot adds none. With a period, a later success replaces the own one. The
/// expression is NULL if no success has to be recorded.
pub(super) fn is_recorded(contender: &Contender, token: Token, outcome: HistoryOutcome) -> String {
    let Some(once) = contender.once.as_ref().filter(|_| outcome.is_success()) else {
        return "NULL".to_owned();
    };
    let action = hex(contender.action.as_str());
    let (successes, column, another) = match once {
        Once::Ever(key) => {
            let key = hex(key.as_str());
            let successes = format!("dlock_success WHERE action={action} AND once_key={key}");
            (successes, "token", "<>")
        }
        Once::Per(_) => {
            let successes = format!("dlock_lock WHERE action={action}");
            (successes, "succeeded_token", ">")
        }
    };
    let success =
        |comparison| format!("EXISTS(SELECT 1 FROM {successes} AND {column}{comparison}{token})");
    format!(
        "({} OR {} AND ({CHANGED}>0 OR COALESCE({}='exited',FALSE)))",
        success("="),
        success(another),
        recorded_outcome(contender, token)
    )
}
