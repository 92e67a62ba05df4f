//! From the rows of a reply to [`Sighting`]s, [`View`]s and waiters, and the checks that the reply
//! is the one asked for.

use std::time::Duration;

use mysql::Row;
use mysql::prelude::FromValue;

use super::schema::VERSION;
use super::statements::GonePlace;
use crate::lease::action::Action;
use crate::lease::{Claim, Token};
use crate::store::read_back::{AttemptReadBack, ReleaseReadBack};
use crate::store::{
    Closed, Entry, Failure, FailureKind, Fate, Holder, Keeper, LastRun, Operator, Owner, Remainder,
    ServerTime, Session, Sighting, Success, Version, View, Waiter,
};
use crate::twin::{self, Mechanism};

/// The contents of a reply whose request number and schema version were right.
#[derive(Debug)]
pub(super) struct Sight {
    /// The server's clock.
    pub(super) server_time: ServerTime,
    /// The rows found, in order of their action's bytes.
    pub(super) rows: Vec<Sighting>,
    /// The line, where it was asked for.
    pub(super) view: Option<View>,
    /// The success that was asked for, if there is one.
    pub(super) success: Option<Success>,
    /// Whether the statement before has changed a row, where that was asked for.
    pub(super) changed: bool,
}

/// What is read back behind an attempt.
#[derive(Debug)]
pub(super) struct Proof {
    pub(super) row: AttemptReadBack,
    /// The server's clock.
    pub(super) server_time: ServerTime,
    /// The success that was asked for, if there is one.
    pub(super) success: Option<Success>,
}

/// What is read back behind an operator's change.
#[derive(Debug)]
pub(super) struct Intervened {
    /// Whether the change is recorded.
    pub(super) done: bool,
    /// The session to end, so that the holder finds out.
    pub(super) session: Option<u64>,
}

/// Reads the rows of a `sight` statement that was sent with the number `request`.
///
/// # Errors
/// `Unknown` when the reply belongs to another request or makes no sense; `Config` when the
/// tables are of another version.
pub(super) fn sight(rows: Vec<Row>, request: [u8; 8]) -> Result<Sight, Failure> {
    let mut sight = Sight {
        server_time: ServerTime(0),
        rows: Vec::new(),
        view: None,
        success: None,
        changed: false,
    };
    if rows.is_empty() {
        return Err(garbled("it is empty"));
    }
    for mut row in rows {
        check(&mut row, request)?;
        version(field(&mut row, "version")?)?;
        sight.server_time = ServerTime(needed(&mut row, "server_time")?);
        if has(&row, "ahead") {
            sight.view = Some(view(&mut row)?);
        }
        if has(&row, "done_token") {
            sight.success = success(&mut row)?;
        }
        if has(&row, "changed") {
            sight.changed = changed(&mut row)?;
        }
        if let Some(action) = action(&mut row)? {
            sight.rows.push(sighting(&mut row, action)?);
        }
    }
    Ok(sight)
}

/// Reads a `proof`; none if there is no row.
pub(super) fn proof(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<Option<Proof>, Failure> {
    let Some(mut row) = sets.into_iter().flatten().next() else {
        return Ok(None);
    };
    check(&mut row, request)?;
    Ok(Some(Proof {
        row: AttemptReadBack {
            changed: changed(&mut row)?,
            owner: Owner {
                claim: claim(&mut row)?,
                token: Token(needed(&mut row, "token")?),
                is_broken: yes(&mut row, "broken")?,
            },
        },
        server_time: ServerTime(needed(&mut row, "server_time")?),
        success: match has(&row, "done_token") {
            true => success(&mut row)?,
            false => None,
        },
    }))
}

/// Reads the answer of a statement that asks for nothing else: whether it is yes.
pub(super) fn answer(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<bool, Failure> {
    yes(&mut only(sets, request)?, "answer")
}

/// Reads what a `release` packet says of itself.
pub(super) fn freed(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<ReleaseReadBack, Failure> {
    let mut row = only(sets, request)?;
    let ending = text(&mut row, "ending")?;
    Ok(ReleaseReadBack {
        changed: yes(&mut row, "changed")?,
        is_named: needed::<u64>(&mut row, "named")? > 0,
        broken: field(&mut row, "broken")?.map(Token),
        is_recorded: field::<u64>(&mut row, "recorded")?.map(|recorded| recorded == 1),
        ending: Fate::read(&ending, Some(0)),
    })
}

/// Reads what an operator's packet says of itself.
pub(super) fn intervened(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<Intervened, Failure> {
    let mut row = only(sets, request)?;
    Ok(Intervened {
        done: yes(&mut row, "answer")?,
        session: field(&mut row, "session")?,
    })
}

/// The one row of a reply.
fn only(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<Row, Failure> {
    let mut row = sets
        .into_iter()
        .flatten()
        .next()
        .ok_or_else(|| garbled("it is empty"))?;
    check(&mut row, request)?;
    Ok(row)
}

fn success(row: &mut Row) -> Result<Option<Success>, Failure> {
    let Some(token) = field(row, "done_token")? else {
        return Ok(None);
    };
    Ok(Some(Success {
        token: Token(token),
        holder: text(row, "done_holder")?,
        at: rfc3339(&needed::<String>(row, "done_at")?),
        ago: age(row, "done_us")?,
    }))
}

/// Reads the rows of a `waiters` statement.
pub(super) fn waiters(rows: Vec<Row>, request: [u8; 8]) -> Result<Vec<Waiter>, Failure> {
    let mut waiters = Vec::new();
    for mut row in rows {
        check(&mut row, request)?;
        if let Some(action) = action(&mut row)? {
            waiters.push(Waiter {
                action,
                holder: holder(&mut row)?,
                waiting_for: age(&mut row, "waiting_us")?,
                alive: field::<u64>(&mut row, "alive")?.map(|alive| alive == 1),
            });
        }
    }
    Ok(waiters)
}

/// The reply must carry the number of the request.
fn check(row: &mut Row, request: [u8; 8]) -> Result<(), Failure> {
    match field::<Vec<u8>>(row, "request")? {
        Some(number) if number == request => Ok(()),
        Some(_) if twin::is_out(Mechanism::OwnReply) => Ok(()),
        _ => Err(garbled("it belongs to another question")),
    }
}

fn version(version: Option<u64>) -> Result<(), Failure> {
    let message = match version {
        Some(VERSION) => return Ok(()),
        Some(newer) if newer > VERSION => format!(
            "the tables have schema version {newer}, this dlock knows {VERSION}: use a newer dlock"
        ),
        Some(older) => format!(
            "the tables have schema version {older}, this dlock needs {VERSION}: \
             run the dlock that made them, or give dlock a database of its own"
        ),
        None => "the table dlock_schema is empty: run dlock setup".to_owned(),
    };
    Err(Failure {
        kind: FailureKind::Config,
        message,
    })
}

/// Reads the rows of an `entries` statement.
pub(super) fn entries(rows: Vec<Row>, request: [u8; 8]) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    if rows.is_empty() {
        return Err(garbled("it is empty"));
    }
    for mut row in rows {
        check(&mut row, request)?;
        version(field(&mut row, "version")?)?;
        let Some(action) = action(&mut row)? else {
            continue;
        };
        let Some(fate) = fate(&mut row, "ending", "number")? else {
            continue;
        };
        entries.push(Entry {
            action,
            key: field::<Vec<u8>>(&mut row, "once_key")?
                .map(|key| String::from_utf8_lossy(&key).into_owned()),
            token: Token(needed(&mut row, "token")?),
            holder: holder(&mut row)?,
            began_at: rfc3339(&needed::<String>(&mut row, "began_at")?),
            ended_at: rfc3339(&needed::<String>(&mut row, "ended_at")?),
            took: age(&mut row, "took_us")?,
            ago: age(&mut row, "ended_us")?,
            fate,
        });
    }
    Ok(entries)
}

/// How a run ended; none if there is none, or a newer dlock wrote it.
fn fate(row: &mut Row, ending: &str, number: &str) -> Result<Option<Fate>, Failure> {
    let number = field(row, number)?;
    Ok(Fate::read(&text(row, ending)?, number))
}

fn last(row: &mut Row) -> Result<Option<LastRun>, Failure> {
    if !has(row, "last_token") {
        return Ok(None);
    }
    let Some(token) = field(row, "last_token")? else {
        return Ok(None);
    };
    let ago = age(row, "last_us")?;
    let fate = fate(row, "last_ending", "last_number")?;
    Ok(fate.map(|fate| LastRun {
        token: Token(token),
        fate,
        ago,
    }))
}

/// The row's action; none if the row only says that there is nothing, or has a name that no dlock
/// could have given: nobody can hold that, and it must not hide the others.
fn action(row: &mut Row) -> Result<Option<Action>, Failure> {
    let name: Option<Vec<u8>> = field(row, "action")?;
    Ok(name
        .and_then(|name| String::from_utf8(name).ok())
        .and_then(|name| name.parse().ok()))
}

fn view(row: &mut Row) -> Result<View, Failure> {
    let keeper: Option<u64> = field(row, "keeper")?;
    let session: Option<u64> = field(row, "session")?;
    let known = field::<u64>(row, "keeper_known")? == Some(1);
    Ok(View {
        keeper: match (session, keeper) {
            (None, _) => Keeper::Unasked,
            (Some(_), None) => Keeper::Nobody,
            (Some(session), Some(keeper)) if session == keeper => Keeper::Us,
            (Some(_), Some(_)) if known => Keeper::Line,
            (Some(_), Some(_)) => Keeper::Stranger,
        },
        ahead: field(row, "ahead")?.unwrap_or(0),
        first_for: micros(row, "first_us")?.map(past),
    })
}

/// Reads a list of places whose sessions are `gone`.
pub(super) fn gone(sets: Vec<Vec<Row>>, request: [u8; 8]) -> Result<Vec<GonePlace>, Failure> {
    let list: Option<String> = field(&mut only(sets, request)?, "gone")?;
    let places = list.as_deref().unwrap_or_default().split(',');
    Ok(places.filter_map(gone_place).collect())
}

/// `position:session`; the last one of a list may have been cut and is then of no use.
fn gone_place(text: &str) -> Option<GonePlace> {
    let (position, session) = text.split_once(':')?;
    Some(GonePlace {
        position: position.parse().ok()?,
        session: session.parse().ok()?,
    })
}

fn sighting(row: &mut Row, action: Action) -> Result<Sighting, Failure> {
    let left: i64 = field(row, "left_us")?.unwrap_or(0);
    let renewed = micros(row, "renewed_us")?.unwrap_or(0);
    Ok(Sighting {
        action,
        claim: claim(row)?,
        version: Version {
            token: Token(needed(row, "token")?),
            renewals: needed(row, "renewals")?,
        },
        holder: holder(row)?,
        ttl: Duration::from_micros(needed(row, "ttl_us")?),
        acquired_at: field::<String>(row, "acquired_at")?.map(|time| rfc3339(&time)),
        held_for: age(row, "held_us")?,
        renewed_ago: past(renewed),
        renewed_ahead: past(renewed.saturating_neg()),
        remainder: if left > 0 {
            Remainder::Left(Duration::from_micros(left.unsigned_abs()))
        } else {
            Remainder::Lapsed(Duration::from_micros(left.unsigned_abs()))
        },
        fenced: field::<u64>(row, "fenced")? == Some(1),
        kept_until: match field::<u64>(row, "kept")? {
            Some(1) => field::<String>(row, "expires_at")?.map(|time| rfc3339(&time)),
            _ => None,
        },
        last: last(row)?,
        gated_here: field::<u64>(row, "gated_here")? == Some(1),
        session: session(row)?,
        broken_ago: micros(row, "broken_us")?.map(past),
        closed: closed(row)?,
        operator: operator(row)?,
    })
}

/// Whether the statement that the reply is about has changed the row.
fn changed(row: &mut Row) -> Result<bool, Failure> {
    Ok(yes(row, "changed")? || twin::is_out(Mechanism::ReadBack))
}

fn claim(row: &mut Row) -> Result<Option<Claim>, Failure> {
    let bytes: Option<Vec<u8>> = field(row, "claim")?;
    let claim = bytes.map(|bytes| bytes.try_into().map(Claim::new));
    claim
        .transpose()
        .map_err(|_| garbled("a claim is not 16 bytes long"))
}

fn session(row: &mut Row) -> Result<Session, Failure> {
    Ok(match has(row, "alive") {
        true => Session {
            id: needed(row, "session_id")?,
            is_alive: field::<u64>(row, "alive")?.map(|alive| alive == 1),
        },
        false => Session::default(),
    })
}

/// None when the time is over, too.
fn closed(row: &mut Row) -> Result<Option<Closed>, Failure> {
    let left = micros(row, "closed_us")?.map(past);
    let until: Option<String> = field(row, "closed_until")?;
    let closed = left.filter(|left| !left.is_zero()).zip(until);
    Ok(closed.map(|(left, until)| Closed {
        until: rfc3339(&until),
        left,
    }))
}

fn operator(row: &mut Row) -> Result<Option<Operator>, Failure> {
    let label = text(row, "operator")?;
    let reason = text(row, "reason")?;
    Ok(Some(Operator { label, reason }).filter(|operator| !operator.label.is_empty()))
}

fn holder(row: &mut Row) -> Result<Holder, Failure> {
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

fn has(row: &Row, name: &str) -> bool {
    row.columns_ref()
        .iter()
        .any(|column| column.name_ref() == name.as_bytes())
}

/// A column's value, none for NULL.
fn field<T: FromValue>(row: &mut Row, name: &str) -> Result<Option<T>, Failure> {
    match row.take_opt::<Option<T>, _>(name) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(garbled(&format!("column {name} has the wrong type"))),
        None => Err(garbled(&format!("column {name} is missing"))),
    }
}

/// Whether a condition holds; NULL does not.
fn yes(row: &mut Row, name: &str) -> Result<bool, Failure> {
    Ok(field::<u64>(row, name)? == Some(1))
}

fn needed<T: FromValue>(row: &mut Row, name: &str) -> Result<T, Failure> {
    field(row, name)?.ok_or_else(|| garbled(&format!("column {name} is NULL")))
}

/// Another client's text: not necessarily UTF-8, escaped where it is printed.
fn text(row: &mut Row, name: &str) -> Result<String, Failure> {
    let bytes: Vec<u8> = field(row, name)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An age in microseconds; NULL and a negative one (the server's clock was set back) are zero.
fn age(row: &mut Row, name: &str) -> Result<Duration, Failure> {
    Ok(micros(row, name)?.map_or(Duration::ZERO, past))
}

fn micros(row: &mut Row, name: &str) -> Result<Option<i64>, Failure> {
    field(row, name)
}

/// The time that `micros` tells; a negative one is none.
fn past(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The server's `2026-11-20 09:30:00.123456`, which is UTC, as RFC 3339.
fn rfc3339(time: &str) -> String {
    format!("{}Z", time.replacen(' ', "T", 1))
}

fn garbled(why: &str) -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: format!("the reply cannot be used: {why}"),
    }
}
