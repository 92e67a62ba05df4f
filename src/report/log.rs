//! Formats messages as JSON, with one object per line.
//!
//! The format is documented in dlock-operations(7) and is stable: fields and events may be added, but are never
//! changed. This file has no side effects. It reads the wall clock only to print the time of a message.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::format::{json_line, millis};
use strum::{IntoStaticStr, VariantArray};

use crate::lease::Token;
use crate::store::{Expiry, LockRecord};
use crate::sys::clock;

/// Last second that RFC 3339 can represent, as the time since 1970.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// Level of detail of the messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Prints only errors.
    Quiet,
    /// Also prints the progress of waits, results, and unexpected events.
    Normal,
    /// Also prints each step of the run.
    Verbose,
}

/// Kind of a message, for programs that read the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum EventKind {
    /// dlock waits because the action is held or paused, because other contenders wait for the action,
    /// or because a request has failed.
    Waiting,
    /// Named locks do not work on this server.
    NoNamedLocks,
    /// dlock has connected to the server.
    Connected,
    /// `serve` accepts connections.
    Listening,
    /// dlock does not use one of several hosts.
    HostSkipped,
    /// This process acquired the lease.
    Granted,
    /// An outer dlock holds the lease, and the command runs under the outer lease.
    Nested,
    /// dlock did not run the command, because the command had already succeeded or because the
    /// action was held or paused until dlock gave up.
    Skipped,
    /// The server has closed the connection, and dlock reconnects.
    Disconnected,
    /// A renewal failed, and dlock retries the renewal.
    RenewalFailed,
    /// The database has lost the grant, and dlock writes it again.
    GrantLost,
    /// A renewal succeeded after one or more failed renewals.
    Renewed,
    /// A renewal succeeded. Printed only with `-v`.
    Renewal,
    /// Ctrl-Z stops dlock, which cannot renew the lease before it continues.
    Suspended,
    /// The lease was lost or cannot be kept, so dlock stops the command.
    Lost,
    /// dlock stops the command for a reason other than a lost lease.
    Stopping,
    /// dlock sent a signal to the command.
    Signal,
    /// A process of the command does not die.
    Stuck,
    /// The command has ended.
    Ended,
    /// A session of a command is left on the server, or cannot be found or ended.
    SessionsLeft,
    /// dlock has killed sessions of a command.
    SessionsEnded,
    /// dlock has killed processes that a command left.
    ProcessesKilled,
    /// The holder released the lease, or an operator revoked it.
    Released,
    /// This process could not release the lease, which ends when it expires, or no longer held the lease.
    NotReleased,
    /// The run was not written to the history, or its success was not recorded.
    NotRecorded,
    /// An operator has paused the action.
    Paused,
    /// An operator has resumed the action.
    Resumed,
    /// A hook failed.
    HookFailed,
    /// The metrics could not be written.
    MetricsFailed,
    /// Messages were dropped because stderr was not read in time.
    MessagesDropped,
    /// The server's clock was set.
    ClockStep,
    /// The server's clock and the clock of this machine differ.
    ClockDifference,
    /// The server from which `status` or `history` reads is read-only.
    ReadOnly,
    /// dlock fails. The message contains the reason.
    Failed,
    /// A message of no other kind.
    Message,
}

impl EventKind {
    /// All kinds, in the order of dlock-operations(7).
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the value of the JSON field `event`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the metadata of a message of this kind. `holder` is the label of the other holder or of the
    /// operator that the message is about. None if there is neither.
    #[must_use]
    pub const fn by(self, holder: Option<&str>) -> EventMeta<'_> {
        EventMeta {
            kind: self,
            holder,
            status: None,
            wait: None,
            min_hold_until: None,
        }
    }
}

/// Metadata of a message: its kind, the holder or operator that the message is about, and the exit status.
#[derive(Debug, Clone, Copy)]
pub struct EventMeta<'a> {
    kind: EventKind,
    holder: Option<&'a str>,
    status: Option<u8>,
    wait: Option<WaitFacts>,
    min_hold_until: Option<Duration>,
}

/// State of a wait, for the event `waiting`.
#[derive(Debug, Clone, Copy)]
pub struct WaitFacts {
    /// Time since this process began to wait.
    pub waited: Duration,
    /// Number of waiters ahead of this process. None if this process does not wait in the queue, or if the number is
    /// unknown.
    pub ahead: Option<u64>,
    /// Token and expiry of the lease of the present holder. None if no lease is known.
    pub lease: Option<(Token, Expiry)>,
}

impl WaitFacts {
    /// Returns the state of a wait of the length `waited` behind `ahead` other waiters. `record` is the latest known
    /// record, if any.
    #[must_use]
    pub fn new(waited: Duration, ahead: Option<u64>, record: Option<&LockRecord>) -> Self {
        let leased = record.filter(|record| record.is_leased());
        let lease = leased.map(|record| {
            (
                record.main_lease().version.token,
                record.main_lease().expiry,
            )
        });
        Self {
            waited,
            ahead,
            lease,
        }
    }
}

impl EventMeta<'_> {
    /// Returns true if the message is about a run that dlock skipped.
    pub(super) const fn is_skipped(&self) -> bool {
        matches!(self.kind, EventKind::Skipped)
    }

    /// Adds the state of the wait.
    #[must_use]
    pub const fn waiting(mut self, wait: WaitFacts) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Adds the time since 1970 until which the lease stays held for `--min-hold`. None adds nothing.
    #[must_use]
    pub const fn held_until(mut self, until: Option<Duration>) -> Self {
        self.min_hold_until = until;
        self
    }

    /// Adds the status with which dlock exits after this message.
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

/// Fields that all messages of a run contain after the fields have been set.
#[derive(Debug, Default, Clone)]
pub(super) struct Context {
    pub(super) action: Option<String>,
    pub(super) token: Option<u64>,
}

/// A message as a JSON object.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_hold_until: Option<String>,
    message: &'a str,
}

/// Formats a message as one line of JSON, including the newline. Escapes the characters that a terminal
/// would interpret.
pub(super) fn line(level: Verbosity, meta: EventMeta, context: &Context, text: &str) -> String {
    let lease = meta.wait.and_then(|wait| wait.lease);
    let line = LogLine {
        time: rfc3339(clock::wall()),
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
        ahead: meta.wait.and_then(|wait| wait.ahead),
        waited_ms: meta.wait.map(|wait| millis(wait.waited)),
        expires_in_ms: lease.map(|(_, expiry)| expires_in_ms(expiry)),
        holder_token: lease.map(|(token, _)| token.0),
        min_hold_until: meta.min_hold_until.map(rfc3339),
        message: text,
    };
    // Serialization fails only for maps whose keys are not strings.
    json_line(&line).unwrap_or_default()
}

/// Returns the time until the lease expires in milliseconds, which is negative if the lease has expired.
fn expires_in_ms(expiry: Expiry) -> i64 {
    let signed = |time| i64::try_from(millis(time)).unwrap_or(i64::MAX);
    match expiry {
        Expiry::In(left) => signed(left),
        Expiry::Ago(ago) => -signed(ago),
    }
}

/// Formats a time since 1970 as RFC 3339, in UTC, with milliseconds.
#[must_use]
pub fn rfc3339(since_1970: Duration) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970.min(LAST_SECOND)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Context, EventKind, line, rfc3339};
    use crate::report::Verbosity;
    use crate::report::escape::is_harmful;

    #[test]
    fn times_are_utc_with_milliseconds_for_any_clock() {
        let millis = |millis| rfc3339(Duration::from_millis(millis));
        assert_eq!(millis(1_795_167_913_042), "2026-11-20T09:45:13.042Z");
        assert_eq!(millis(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Duration::MAX), "9999-12-31T23:59:59.000Z");
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
