//! Reads the values of the columns of a row. A column that is missing in the response counts as NULL.

use std::time::Duration;

use mysql::prelude::FromValue;
use mysql::{Row, Value};

use crate::store::{Failure, FailureKind};

/// Returns the first row of a response.
pub(super) fn first_row(sets: &[Vec<Row>]) -> Result<&Row, Failure> {
    let row = sets.iter().flatten().next();
    row.ok_or_else(|| malformed("it is empty"))
}

/// Returns the value of a column, or None if the value is NULL or the response does not have the column.
pub(super) fn optional<T: FromValue>(row: &Row, name: &str) -> Result<Option<T>, Failure> {
    debug_assert!(
        row.columns_ref()
            .iter()
            .filter(|column| column.name_ref() == name.as_bytes())
            .count()
            <= 1,
        "two columns have the name {name}"
    );
    match row.get_opt::<Option<T>, _>(name) {
        Some(Err(_)) => Err(malformed(&format!("column {name} has an unexpected type"))),
        Some(Ok(value)) => Ok(value),
        None => Ok(None),
    }
}

pub(super) fn required<T: FromValue>(row: &Row, name: &str) -> Result<T, Failure> {
    optional(row, name)?.ok_or_else(|| malformed(&format!("column {name} is NULL")))
}

/// Returns true if the column is 1. NULL counts as false.
pub(super) fn flag(row: &Row, name: &str) -> Result<bool, Failure> {
    Ok(optional::<u64>(row, name)? == Some(1))
}

/// Returns a string that any client may have written. Bytes that are not UTF-8 are replaced. The code that prints the
/// string escapes it.
pub(super) fn text(row: &Row, name: &str) -> Result<String, Failure> {
    let bytes: Vec<u8> = optional(row, name)?.unwrap_or_default();
    let text = String::from_utf8(bytes);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the duration in a column that contains microseconds. Returns zero if the value is NULL or negative. An age
/// is negative if its event is ahead of the server's clock.
pub(super) fn elapsed(row: &Row, name: &str) -> Result<Duration, Failure> {
    Ok(optional(row, name)?.map_or(Duration::ZERO, non_negative))
}

/// Returns the duration of `micros` microseconds, or zero if `micros` is negative.
pub(super) fn non_negative(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Returns the server's UTC time in a column (`2026-11-20 09:30:00.123456`) as RFC 3339. Returns None if the column is
/// NULL.
pub(super) fn time(row: &Row, name: &str) -> Result<Option<String>, Failure> {
    let time: Option<String> = optional(row, name)?;
    Ok(time.map(|time| format!("{}Z", time.replacen(' ', "T", 1))))
}

/// Returns all values of `rows` as text. None represents NULL.
pub(super) fn cells(rows: Vec<Row>) -> Vec<Vec<Option<String>>> {
    let text = |value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        // The text protocol returns no other types.
        other => Some(other.as_sql(true)),
    };
    let row = |row: Row| row.unwrap().into_iter().map(text).collect();
    rows.into_iter().map(row).collect()
}

/// Beginning of the message of [`malformed`].
const UNUSABLE: &str = "the response cannot be used: ";

pub(super) fn malformed(why: &str) -> Failure {
    Failure::new(FailureKind::Unknown, format!("{UNUSABLE}{why}"))
}

/// Returns the reason of [`malformed`].
pub(super) fn reason(malformed: &Failure) -> &str {
    let message = malformed.message.as_str();
    message.strip_prefix(UNUSABLE).unwrap_or(message)
}
