//! The output of `dlock leader`: the label of the leader on a line, or JSON.
//!
//! The JSON format is documented in dlock-leader(1) and is stable: fields may be added, but are never renamed or removed.

use serde::Serialize;
use serde_json::Value;

use super::escape::printable;
use super::format::json_line;
use crate::lease::action::Action;
use crate::store::LockRecord;

/// A line of JSON about the leader.
#[derive(Serialize)]
struct LeaderDocument<'a> {
    action: &'a str,
    leader: Option<LeaderJson<'a>>,
    read_only: bool,
}

#[derive(Serialize)]
struct LeaderJson<'a> {
    holder: &'a str,
    note: &'a str,
    token: u64,
    host: &'a str,
    pod: &'a str,
    since: Option<&'a str>,
}

/// Returns the label of the leader and a newline. Only a newline if there is no leader.
#[must_use]
pub fn line(record: &LockRecord) -> String {
    let leader = record.leader();
    let label = leader.map_or("", |leader| &leader.holder.label);
    format!("{}\n", printable(label))
}

/// Returns the leader as a JSON object on one line. `is_read_only` is true if a server that refuses writes has sent
/// `record`.
///
/// # Errors
/// Never fails for a record. The `Result` type comes from the serializer.
pub fn json(record: &LockRecord, is_read_only: bool) -> serde_json::Result<String> {
    let leader = record.leader().map(|lease| LeaderJson {
        holder: &lease.holder.label,
        note: &lease.holder.note,
        token: lease.version.token.0,
        host: &lease.holder.host,
        pod: &lease.holder.pod,
        since: lease.acquired_at.as_deref(),
    });
    json_line(&LeaderDocument {
        action: record.action.as_str(),
        leader,
        read_only: is_read_only,
    })
}

/// Returns a JSON object on one line that says why the leader of `action` is not known.
///
/// # Errors
/// Never fails. The `Result` type comes from the serializer.
pub fn unknown(action: &Action, why: &str) -> serde_json::Result<String> {
    json_line(&serde_json::Map::from_iter([
        ("action".to_owned(), Value::from(action.as_str())),
        ("unknown".to_owned(), Value::from(why)),
    ]))
}

/// Says why there is no leader.
#[must_use]
pub fn nobody(record: &LockRecord) -> String {
    let action = &record.action;
    match record.is_shared() {
        _ if !record.is_known => super::messages::unknown(action),
        true => format!("{action} is held by several holders, so it has no leader"),
        false => format!("{action} has no leader"),
    }
}
