//! Messages as JSON: one object a line, with fields that keep their names and meaning.
//!
//! The form is documented in dlock(7) and is an interface: fields and events may be added, none may
//! change. Pure but for the wall clock, which stands in each line and decides nothing.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::Verbosity;
use super::form::json_line;
use crate::sys::clock;

/// The last second that RFC 3339 can write.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// What a message is about, as a program tells messages apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Anything that has no word of its own.
    Message,
    /// It is held, or wanted by others, or the server does not answer; we wait.
    Waiting,
    /// Named locks do not work on this server.
    NoGate,
    /// The server's clock was set.
    ClockStep,
    /// The server's clock and ours differ.
    ClockDifference,
    /// The lease is ours.
    Granted,
    /// An outer dlock has the lease, under which the command runs.
    Nested,
    /// The server has closed the connection; dlock reconnects.
    Disconnected,
    /// A renewal failed; it is tried again.
    RenewalFailed,
    /// A renewal succeeded after others had failed.
    Renewed,
    /// The lease was lost or cannot be kept; the command is stopped.
    Lost,
    /// The command is stopped for another reason.
    Stopping,
    /// A signal was sent to the command.
    Signal,
    /// The command has ended.
    Ended,
    /// A process of the command does not die.
    Stuck,
    /// The lease was given up, or an operator has ended it.
    Released,
    /// An operator has closed the action for a time.
    Closed,
    /// And has opened it again.
    Reopened,
    /// It could not be given up, or was not ours any more: it lapses.
    NotReleased,
    /// The run is not in the history, or its success does not count.
    NotRecorded,
    /// Nothing was run: it is done already, or held by another and time ran out.
    Skipped,
    /// A hook failed.
    HookFailed,
    /// The metrics could not be written.
    MetricsFailed,
    /// Messages were dropped, because stderr was not read in time.
    MessagesDropped,
    /// Why dlock ends.
    Failed,
}

impl What {
    /// All there are, in the order in which the manual has them.
    pub const ALL: [Self; 25] = [
        Self::Waiting,
        Self::NoGate,
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
        Self::Closed,
        Self::Reopened,
        Self::HookFailed,
        Self::MetricsFailed,
        Self::MessagesDropped,
        Self::ClockStep,
        Self::ClockDifference,
        Self::Failed,
        Self::Message,
    ];

    /// The word in the field `event`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Waiting => "waiting",
            Self::NoGate => "no-gate",
            Self::ClockStep => "clock-step",
            Self::ClockDifference => "clock-difference",
            Self::Disconnected => "disconnected",
            Self::Closed => "closed",
            Self::Reopened => "reopened",
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

    /// This, with `holder` as the other that is meant.
    #[must_use]
    pub const fn by(self, holder: Option<&str>) -> Subject<'_> {
        Subject {
            what: self,
            holder,
            status: None,
        }
    }
}

/// What a message is about, and whom.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    what: What,
    holder: Option<&'a str>,
    status: Option<u8>,
}

impl Subject<'_> {
    /// The same, as the last that is said: dlock ends with `status`.
    #[must_use]
    pub const fn ending_with(mut self, status: u8) -> Self {
        self.status = Some(status);
        self
    }
}

impl From<What> for Subject<'_> {
    fn from(what: What) -> Self {
        what.by(None)
    }
}

/// What stays the same in all messages of a run, once it is known.
#[derive(Debug, Default, Clone)]
pub(super) struct Context {
    pub(super) action: Option<String>,
    pub(super) token: Option<u64>,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
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

/// The message as a line of JSON, its end included, on which no terminal acts.
pub(super) fn line(level: Verbosity, subject: Subject, context: &Context, text: &str) -> String {
    let line = Line {
        time: time(clock::wall()),
        level: match level {
            Verbosity::Quiet => "error",
            Verbosity::Normal => "notice",
            Verbosity::Verbose => "detail",
        },
        event: subject.what.word(),
        action: context.action.as_deref(),
        token: context.token,
        holder: subject.holder,
        status: subject.status,
        message: text,
    };
    // Fails only for maps whose keys are no texts.
    json_line(&line).unwrap_or_default()
}

/// A time since 1970 as RFC 3339, UTC, with milliseconds.
fn time(since_1970: Duration) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970.min(LAST_SECOND)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Context, What, line, time};
    use crate::report::Verbosity;
    use crate::report::escape::is_harmful;

    #[test]
    fn a_time_has_milliseconds_and_is_utc_whatever_the_clock_says() {
        let millis = |millis| time(Duration::from_millis(millis));
        assert_eq!(millis(1_795_167_913_042), "2026-11-20T09:45:13.042Z");
        assert_eq!(millis(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(Duration::MAX), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn no_two_events_share_a_word() {
        let mut words: Vec<&str> = What::ALL.iter().map(|what| what.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), What::ALL.len());
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_one_line_that_says_just_that(
            text in any::<String>(),
            action in any::<String>(),
            holder in any::<String>(),
            token in any::<u64>(),
        ) {
            let context = Context { action: Some(action.clone()), token: Some(token) };
            let subject = What::Lost.by(Some(&holder)).ending_with(76);
            let line = line(Verbosity::Quiet, subject, &context, &text);
            let body = line.strip_suffix('\n').expect("it ends the line");
            prop_assert!(!body.contains(is_harmful), "{body:?}");
            let value: Value = serde_json::from_str(body).expect("it is JSON");
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
