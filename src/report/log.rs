//! Messages as JSON: one object per line, with fields that keep their names and meaning.
//!
//! The form is documented in dlock(7) and is stable: fields and events may be added, but never changed.
//! This file is pure except for the wall clock, which is printed in each line and decides nothing.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::format::json_line;
use crate::sys::clock;

/// Last second that RFC 3339 can represent.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// How many messages are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only the reasons why dlock fails.
    Quiet,
    /// Also what a user who waits wants to know.
    Normal,
    /// Also each step.
    Verbose,
}

/// Kind of a message, by which a program can distinguish messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A message without a kind of its own.
    Message,
    /// dlock waits: another process holds or wants the action, or the server does not respond.
    Waiting,
    /// Named locks do not work on this server.
    NoNamedLocks,
    /// The server's clock was set.
    ClockStep,
    /// The server's clock and the clock of this machine differ.
    ClockDifference,
    /// This process holds the lease.
    Granted,
    /// An outer dlock holds the lease, and the command runs under it.
    Nested,
    /// The server has closed the connection; dlock reconnects.
    Disconnected,
    /// A renewal failed; dlock retries it.
    RenewalFailed,
    /// A renewal succeeded after others had failed.
    Renewed,
    /// The lease was lost or cannot be kept; dlock stops the command.
    Lost,
    /// dlock stops the command for another reason.
    Stopping,
    /// dlock sent a signal to the command.
    Signal,
    /// The command has ended.
    Ended,
    /// A process of the command does not die.
    Stuck,
    /// The holder released the lease, or an operator revoked it.
    Released,
    /// An operator has paused the action.
    Paused,
    /// An operator has resumed the action.
    Resumed,
    /// The lease could not be released, or this process did not hold it any more; it expires.
    NotReleased,
    /// The run is not in the history, or its success does not count.
    NotRecorded,
    /// dlock ran nothing: the command has already succeeded, or another process held the action until
    /// time ran out.
    Skipped,
    /// A hook failed.
    HookFailed,
    /// The metrics could not be written.
    MetricsFailed,
    /// Messages were dropped, because stderr was not read in time.
    MessagesDropped,
    /// The reason why dlock ends.
    Failed,
}

impl EventKind {
    /// All kinds, in the order of the manual.
    pub const ALL: [Self; 25] = [
        Self::Waiting,
        Self::NoNamedLocks,
        Self::Granted,
        Self::Nested,
        Self::Skipped,
        Self::Disconnected,
        Self::RenewalFailed,
        Self::Renewed,
        Self::Lost,
        Self::Stopping,
        Self::Signal,
        Self::Stuck,
        Self::Ended,
        Self::Released,
        Self::NotReleased,
        Self::NotRecorded,
        Self::Paused,
        Self::Resumed,
        Self::HookFailed,
        Self::MetricsFailed,
        Self::MessagesDropped,
        Self::ClockStep,
        Self::ClockDifference,
        Self::Failed,
        Self::Message,
    ];

    /// Returns the value of the field `event`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Waiting => "waiting",
            Self::NoNamedLocks => "no-named-locks",
            Self::ClockStep => "clock-step",
            Self::ClockDifference => "clock-difference",
            Self::Disconnected => "disconnected",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Granted => "granted",
            Self::Nested => "nested",
            Self::RenewalFailed => "renewal-failed",
            Self::Renewed => "renewed",
            Self::Lost => "lost",
            Self::Stopping => "stopping",
            Self::Signal => "signal",
            Self::Ended => "ended",
            Self::Stuck => "stuck",
            Self::Released => "released",
            Self::NotReleased => "not-released",
            Self::NotRecorded => "not-recorded",
            Self::Skipped => "skipped",
            Self::HookFailed => "hook-failed",
            Self::MetricsFailed => "metrics-failed",
            Self::MessagesDropped => "messages-dropped",
            Self::Failed => "failed",
        }
    }

    /// Returns the metadata of a message of this kind, with `holder` as the other process. None if there
    /// is no other.
    #[must_use]
    pub const fn by(self, holder: Option<&str>) -> EventMeta<'_> {
        EventMeta {
            kind: self,
            holder,
            status: None,
        }
    }
}

/// Metadata of a message: its kind, the other process, and the exit status.
#[derive(Debug, Clone, Copy)]
pub struct EventMeta<'a> {
    kind: EventKind,
    holder: Option<&'a str>,
    status: Option<u8>,
}

impl EventMeta<'_> {
    /// Marks the message as the last one: dlock exits with `status`.
    #[must_use]
    pub const fn ending_with(mut self, status: u8) -> Self {
        self.status = Some(status);
        self
    }
}

impl From<EventKind> for EventMeta<'_> {
    fn from(kind: EventKind) -> Self {
        kind.by(None)
    }
}

/// Fields that are the same in all messages of a run, once they are known.
#[derive(Debug, Default, Clone)]
pub(super) struct Context {
    pub(super) action: Option<String>,
    pub(super) token: Option<u64>,
}

/// One line.
#[derive(Serialize)]
struct LogLine<'a> {
    time: String,
    level: &'static str,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u8>,
    message: &'a str,
}

/// Returns the message as a line of JSON, including its end, without characters that a terminal
/// interprets.
pub(super) fn line(level: Verbosity, meta: EventMeta, context: &Context, text: &str) -> String {
    let line = LogLine {
        time: time(clock::wall()),
        level: match level {
            Verbosity::Quiet => "error",
            Verbosity::Normal => "info",
            Verbosity::Verbose => "debug",
        },
        event: meta.kind.as_str(),
        action: context.action.as_deref(),
        token: context.token,
        holder: meta.holder,
        status: meta.status,
        message: text,
    };
    // Fails only for maps whose keys are not strings.
    json_line(&line).unwrap_or_default()
}

/// Formats a time since 1970 as RFC 3339, in UTC, with milliseconds.
fn time(since_1970: Duration) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970.min(LAST_SECOND)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Context, EventKind, line, time};
    use crate::report::Verbosity;
    use crate::report::escape::is_harmful;

    #[test]
    fn times_are_utc_with_milliseconds_for_any_clock() {
        let millis = |millis| time(Duration::from_millis(millis));
        assert_eq!(millis(1_795_167_913_042), "2026-11-20T09:45:13.042Z");
        assert_eq!(millis(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(Duration::MAX), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn event_names_are_unique() {
        let mut names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EventKind::ALL.len());
    }

    proptest! {
        #[test]
        fn every_message_round_trips_as_one_json_line(
            text in any::<String>(),
            action in any::<String>(),
            holder in any::<String>(),
            token in any::<u64>(),
        ) {
            let context = Context { action: Some(action.clone()), token: Some(token) };
            let meta = EventKind::Lost.by(Some(&holder)).ending_with(76);
            let line = line(Verbosity::Quiet, meta, &context, &text);
            let body = line.strip_suffix('\n').expect("the line ends with a newline");
            prop_assert!(!body.contains(is_harmful), "{body:?}");
            let value: Value = serde_json::from_str(body).expect("valid JSON");
            prop_assert_eq!(&value["message"], &Value::from(text));
            prop_assert_eq!(&value["action"], &Value::from(action));
            prop_assert_eq!(&value["holder"], &Value::from(holder));
            prop_assert_eq!(&value["token"], &Value::from(token));
            prop_assert_eq!(&value["level"], "error");
            prop_assert_eq!(&value["event"], "lost");
            prop_assert_eq!(&value["status"], 76);
            prop_assert_eq!(value.as_object().map(serde_json::Map::len), Some(8));
        }
    }
}
