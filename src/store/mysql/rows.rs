//! From the rows of a reply to [`Sighting`]s, [`View`]s and waiters, and the checks that the reply
//! is the one asked for. A column that was not asked for reads as NULL.

use std::time::Duration;

use mysql::Row;
use mysql::prelude::FromValue;

use super::schema::VERSION;
use crate::lease::action::Action;
use crate::lease::{Claim, Token};
use crate::store::read_back::{AttemptReadBack, ReleaseReadBack};
use crate::store::{
    Answer, Closed, Entry, Failure, FailureKind, Fate, Holder, Keeper, LastRun, Operator, Owner,
    Remainder, ServerTime, Sighting, Success, Survey, Version, View, Waiter,
};
use crate::twin::{self, Mechanism};

/// What a look at one action found.
#[derive(Debug)]
pub(super) struct Sight {
    /// The row. None if nobody has ever wanted the action.
    pub(super) row: Option<Sighting>,
    view: View,
    /// The success that was asked for, if there is one.
    pub(super) success: Option<Success>,
    /// Whether the statement before has changed a row.
    pub(super) changed: bool,
}

impl Sight {
    /// The success if there is one, otherwise what was seen.
    pub(super) fn unless_done(
        self,
        seen: impl FnOnce(Sighting, View) -> Answer,
    ) -> Result<Answer, Failure> {
        match (self.success, self.row) {
            (Some(success), _) => Ok(Answer::Done(success)),
            (None, Some(row)) => Ok(seen(row, self.view)),
            (None, None) => Err(vanished()),
        }
    }
}

/// Checks that each row carries the `number` of the request. Returns the server's clock, where it was
/// asked for.
pub(super) fn check(sets: &[Vec<Row>], number: [u8; 8]) -> Result<Option<ServerTime>, Failure> {
    let mut time = None;
    for row in sets.iter().flatten() {
        let found: Option<Vec<u8>> = field(row, "request")?;
        if found.as_deref() != Some(&number) && !twin::is_out(Mechanism::OwnReply) {
            return Err(garbled("it belongs to another question"));
        }
        time = time.or(field(row, "server_time")?.map(ServerTime));
    }
    Ok(time)
}

/// Reads the row of a `sight`.
///
/// # Errors
/// `Unknown` when the reply makes no sense; `Config` when the tables are of another version.
pub(super) fn sight(sets: &[Vec<Row>]) -> Result<Sight, Failure> {
    let row = versioned(sets)?;
    Ok(Sight {
        row: action(row)?
            .map(|action| sighting(row, action))
            .transpose()?,
        view: view(row)?,
        success: success(row)?,
        changed: changed(row)?,
    })
}

/// Reads the rows of a `survey`: locks, then waiters.
pub(super) fn survey(sets: &[Vec<Row>]) -> Result<Survey, Failure> {
    let server_time = ServerTime(needed(versioned(sets)?, "server_time")?);
    let [locks, waiters] = sets else {
        return Err(garbled("it is not complete"));
    };
    Ok(Survey {
        server_time,
        locks: each(locks, sighting)?,
        waiters: each(waiters, waiter)?,
    })
}

/// Reads the rows of an `entries` statement.
pub(super) fn entries(sets: &[Vec<Row>]) -> Result<Vec<Entry>, Failure> {
    versioned(sets)?;
    let entries = each(sets.iter().flatten(), entry)?;
    Ok(entries.into_iter().flatten().collect())
}

/// Reads a `proof`, and the success that was asked for; none if there is no row.
pub(super) fn proof(
    sets: &[Vec<Row>],
) -> Result<Option<(AttemptReadBack, Option<Success>)>, Failure> {
    let Some(row) = sets.iter().flatten().next() else {
        return Ok(None);
    };
    let owner = Owner {
        claim: claim(row)?,
        token: Token(needed(row, "token")?),
        is_broken: flag(row, "broken")?,
    };
    let changed = changed(row)?;
    Ok(Some((AttemptReadBack { changed, owner }, success(row)?)))
}

/// Reads the answer of a statement that asks for nothing else: whether it is yes.
pub(super) fn answer(sets: &[Vec<Row>]) -> Result<bool, Failure> {
    flag(only(sets)?, "answer")
}

/// Reads what a `release` packet says of itself.
pub(super) fn freed(sets: &[Vec<Row>]) -> Result<ReleaseReadBack, Failure> {
    let row = only(sets)?;
    Ok(ReleaseReadBack {
        changed: flag(row, "changed")?,
        is_named: needed::<u64>(row, "named")? > 0,
        broken: field(row, "broken")?.map(Token),
        is_recorded: field(row, "recorded")?,
        ending: Fate::read(&text(row, "ending")?, Some(0)),
    })
}

/// Reads whether an operator's change is recorded, and the session to end so that the holder finds out.
pub(super) fn intervened(sets: &[Vec<Row>]) -> Result<(bool, Option<u64>), Failure> {
    let row = only(sets)?;
    Ok((flag(row, "answer")?, field(row, "session")?))
}

/// Reads the places of which the sessions are `gone`: position and session of each.
pub(super) fn gone(sets: &[Vec<Row>]) -> Result<Vec<(u64, u64)>, Failure> {
    let place = |row| Ok((needed(row, "position")?, needed(row, "session_id")?));
    sets.iter().flatten().map(place).collect()
}

/// The first row of a reply.
fn only(sets: &[Vec<Row>]) -> Result<&Row, Failure> {
    let row = sets.iter().flatten().next();
    row.ok_or_else(|| garbled("it is empty"))
}

/// The same of tables that must have our version.
fn versioned(sets: &[Vec<Row>]) -> Result<&Row, Failure> {
    let row = only(sets)?;
    let message = match field::<u64>(row, "version")? {
        Some(VERSION) => return Ok(row),
        Some(newer) if newer > VERSION => format!(
            "the tables have schema version {newer}, this dlock knows {VERSION}: use a newer dlock"
        ),
        Some(older) => format!(
            "the tables have schema version {older}, this dlock needs {VERSION}: \
             run the dlock that made them, or give dlock a database of its own"
        ),
        None => "the table dlock_schema is empty: run dlock setup".to_owned(),
    };
    Err(Failure::new(FailureKind::Config, message))
}

/// What `read` makes of each row that has an action.
fn each<'a, T>(
    rows: impl IntoIterator<Item = &'a Row>,
    read: impl Fn(&Row, Action) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut found = Vec::new();
    for row in rows {
        if let Some(action) = action(row)? {
            found.push(read(row, action)?);
        }
    }
    Ok(found)
}

/// The row's action; none if the row only says that there is nothing, or has a name that no dlock
/// could have given: nobody can hold that, and it must not hide the others.
fn action(row: &Row) -> Result<Option<Action>, Failure> {
    let name: Option<Vec<u8>> = field(row, "action")?;
    Ok(name
        .and_then(|name| String::from_utf8(name).ok())
        .and_then(|name| name.parse().ok()))
}

fn sighting(row: &Row, action: Action) -> Result<Sighting, Failure> {
    let left: i64 = field(row, "left_us")?.unwrap_or(0);
    let renewed: i64 = field(row, "renewed_us")?.unwrap_or(0);
    let kept = flag(row, "kept")?;
    Ok(Sighting {
        action,
        claim: claim(row)?,
        version: Version {
            token: Token(needed(row, "token")?),
            renewals: needed(row, "renewals")?,
        },
        holder: holder(row)?,
        ttl: Duration::from_micros(needed(row, "ttl_us")?),
        acquired_at: time(row, "acquired_at")?,
        held_for: age(row, "held_us")?,
        renewed_ago: past(renewed),
        renewed_ahead: past(renewed.saturating_neg()),
        remainder: if left > 0 {
            Remainder::Left(Duration::from_micros(left.unsigned_abs()))
        } else {
            Remainder::Lapsed(Duration::from_micros(left.unsigned_abs()))
        },
        fenced: flag(row, "fenced")?,
        kept_until: time(row, "expires_at")?.filter(|_| kept),
        last: last(row)?,
        gated_here: flag(row, "gated_here")?,
        session_alive: field(row, "alive")?,
        broken_ago: field(row, "broken_us")?.map(past),
        closed: closed(row)?,
        operator: operator(row)?,
    })
}

fn waiter(row: &Row, action: Action) -> Result<Waiter, Failure> {
    Ok(Waiter {
        action,
        holder: holder(row)?,
        waiting_for: age(row, "waiting_us")?,
        alive: field(row, "alive")?,
    })
}

/// An entry of the history; none if a newer dlock wrote it.
fn entry(row: &Row, action: Action) -> Result<Option<Entry>, Failure> {
    let Some(fate) = fate(row)? else {
        return Ok(None);
    };
    Ok(Some(Entry {
        action,
        key: field::<Vec<u8>>(row, "once_key")?
            .map(|key| String::from_utf8_lossy(&key).into_owned()),
        token: Token(needed(row, "token")?),
        holder: holder(row)?,
        began_at: time(row, "began_at")?.unwrap_or_default(),
        ended_at: time(row, "ended_at")?.unwrap_or_default(),
        took: age(row, "took_us")?,
        ago: age(row, "ended_us")?,
        fate,
    }))
}

fn last(row: &Row) -> Result<Option<LastRun>, Failure> {
    let token = field(row, "last_token")?.map(Token);
    let ago = age(row, "ended_us")?;
    let last = token.zip(fate(row)?);
    Ok(last.map(|(token, fate)| LastRun { token, fate, ago }))
}

/// How a run ended; none if there is none, or a newer dlock wrote it.
fn fate(row: &Row) -> Result<Option<Fate>, Failure> {
    Ok(Fate::read(&text(row, "ending")?, field(row, "number")?))
}

fn success(row: &Row) -> Result<Option<Success>, Failure> {
    let Some(token) = field(row, "done_token")? else {
        return Ok(None);
    };
    Ok(Some(Success {
        token: Token(token),
        holder: text(row, "done_holder")?,
        at: time(row, "done_at")?.unwrap_or_default(),
        ago: age(row, "done_us")?,
    }))
}

fn view(row: &Row) -> Result<View, Failure> {
    let keeper: Option<u64> = field(row, "keeper")?;
    let session: Option<u64> = field(row, "session")?;
    let known = flag(row, "keeper_known")?;
    Ok(View {
        keeper: match (session, keeper) {
            (None, _) => Keeper::Unasked,
            (Some(_), None) => Keeper::Nobody,
            (Some(session), Some(keeper)) if session == keeper => Keeper::Us,
            (Some(_), Some(_)) if known => Keeper::Line,
            (Some(_), Some(_)) => Keeper::Stranger,
        },
        ahead: field(row, "ahead")?.unwrap_or(0),
        first_for: field(row, "first_us")?.map(past),
    })
}

/// Whether the statement that the reply is about has changed the row.
fn changed(row: &Row) -> Result<bool, Failure> {
    Ok(flag(row, "changed")? || twin::is_out(Mechanism::ReadBack))
}

fn claim(row: &Row) -> Result<Option<Claim>, Failure> {
    let bytes: Option<Vec<u8>> = field(row, "claim")?;
    let claim = bytes.map(|bytes| bytes.try_into().map(Claim::new));
    claim
        .transpose()
        .map_err(|_| garbled("a claim is not 16 bytes long"))
}

/// None when the time is over, too.
fn closed(row: &Row) -> Result<Option<Closed>, Failure> {
    let left = age(row, "closed_us")?;
    let until = time(row, "closed_until")?.filter(|_| !left.is_zero());
    Ok(until.map(|until| Closed { until, left }))
}

fn operator(row: &Row) -> Result<Option<Operator>, Failure> {
    let label = text(row, "operator")?;
    let reason = text(row, "reason")?;
    Ok(Some(Operator { label, reason }).filter(|operator| !operator.label.is_empty()))
}

fn holder(row: &Row) -> Result<Holder, Failure> {
    Ok(Holder {
        label: text(row, "holder")?,
        host: text(row, "host")?,
        pid: needed(row, "pid")?,
        user: text(row, "user")?,
        note: text(row, "note")?,
        pod: text(row, "pod")?,
        namespace: text(row, "namespace")?,
        command: text(row, "command")?,
    })
}

/// A column's value, none for NULL.
fn field<T: FromValue>(row: &Row, name: &str) -> Result<Option<T>, Failure> {
    match row.get_opt::<Option<T>, _>(name) {
        Some(Err(_)) => Err(garbled(&format!("column {name} has the wrong type"))),
        Some(Ok(value)) => Ok(value),
        None => Ok(None),
    }
}

fn needed<T: FromValue>(row: &Row, name: &str) -> Result<T, Failure> {
    field(row, name)?.ok_or_else(|| garbled(&format!("column {name} is NULL")))
}

/// Whether a condition holds; NULL does not.
fn flag(row: &Row, name: &str) -> Result<bool, Failure> {
    Ok(field::<u64>(row, name)? == Some(1))
}

/// Another client's text: not necessarily UTF-8, escaped where it is printed.
fn text(row: &Row, name: &str) -> Result<String, Failure> {
    let bytes: Vec<u8> = field(row, name)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An age in microseconds; NULL and a negative one (the server's clock was set back) are zero.
fn age(row: &Row, name: &str) -> Result<Duration, Failure> {
    Ok(field(row, name)?.map_or(Duration::ZERO, past))
}

/// The time that `micros` tells; a negative one is none.
fn past(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The server's `2026-11-20 09:30:00.123456`, which is UTC, as RFC 3339.
fn time(row: &Row, name: &str) -> Result<Option<String>, Failure> {
    let time: Option<String> = field(row, name)?;
    Ok(time.map(|time| format!("{}Z", time.replacen(' ', "T", 1))))
}

/// Rows are never deleted by dlock; somebody else did it.
pub(super) fn vanished() -> Failure {
    let why = "the lock's row is gone from dlock_lock: somebody deleted it";
    Failure::new(FailureKind::Unknown, why)
}

fn garbled(why: &str) -> Failure {
    let message = format!("the reply cannot be used: {why}");
    Failure::new(FailureKind::Unknown, message)
}
