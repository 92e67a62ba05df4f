//! Messages: the texts for an action in each state, and a message of each kind as text and as JSON.

use std::fmt::Write as _;

use insta::assert_snapshot;

use super::records::*;
use super::whole_lines;
use crate::cli::Format;
use crate::lease::Token;
use crate::lease::once::{Once, OnceKey};
use crate::report::log::{Context, EventKind};
use crate::report::lost_grant;
use crate::report::messages::{self, duration};
use crate::report::{
    FIRST_REMINDER_PAUSE, Verbosity, line, next_reminder_pause, read_pause, waiting,
};
use crate::store::connected::{ConnectedServer, SkippedHost};
use crate::store::session::{SessionNote, SessionPolicy};
use crate::store::target::{Address, SslMode};
use crate::store::{LockRecord, Success};
use crate::sys::tree::Leftovers;

/// Returns the texts about the action `init` in the state of `record`, with their names.
fn texts(record: &LockRecord) -> Vec<(&'static str, String)> {
    let init = action("init");
    let label = |label: Option<&str>| label.unwrap_or("none").to_owned();
    let mut texts = vec![
        ("waiting", waiting::waiting(&init, record, 0)),
        (
            "later",
            waiting::still_waiting(&init, record, 2, seconds(75), None),
        ),
        (
            "outdated",
            waiting::still_waiting(&init, record, 2, seconds(75), Some(seconds(30))),
        ),
        (
            "line",
            waiting::waiting_line(&init, record, 2, seconds(75), None),
        ),
        (
            "old line",
            waiting::waiting_line(&init, record, 2, seconds(75), Some(seconds(30))),
        ),
        ("was held", messages::was_held(&init, record)),
        ("last grant", messages::last_granted(&init, record)),
        ("diagnosis", messages::diagnosis(record)),
        ("held by", label(messages::whose(record))),
    ];
    if record.operator.is_some() {
        texts.push(("operator", label(messages::operator(record))));
        texts.push(("paused", messages::paused(record)));
    }
    if record.lease.revoked_ago.is_some() {
        texts.push(("revoked", messages::released(record)));
    }
    texts
}

#[test]
fn texts_for_actions_in_every_state() {
    let mut text = String::new();
    for record in states() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:", record.action);
        for (name, message) in texts(&record) {
            let _ = writeln!(text, "  {name:10}  {message}");
        }
    }
    assert_snapshot!(text);
}

#[test]
fn texts_for_actions_with_holders_in_slots() {
    let mut text = String::new();
    for record in slots_and_readers() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:", record.action);
        for (name, message) in texts(&record) {
            let _ = writeln!(text, "  {name:10}  {message}");
        }
    }
    assert_snapshot!(text);
}

#[test]
fn diagnoses_of_actions_with_sessions_on_the_server() {
    let noted = |record: LockRecord, token, policy, count| LockRecord {
        sessions: Some(Box::new(SessionNote {
            token,
            policy,
            ..note("", count)
        })),
        ..record
    };
    let mut text = String::new();
    for record in states() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:", record.action);
        for (name, token, policy, count) in [
            ("own", TOKEN, SessionPolicy::Kill, 2),
            ("earlier", Token(1), SessionPolicy::Wait, 1),
        ] {
            let record = noted(record.clone(), token, policy, count);
            let _ = writeln!(text, "  {name:7}  {}", messages::diagnosis(&record));
        }
    }
    assert_snapshot!(text);
}

#[test]
fn texts_for_positions_in_the_queue() {
    let (init, seen) = (action("init"), held("init"));
    let texts = [0, 1, 2].map(|ahead| {
        let first = waiting::waiting(&init, &seen, ahead);
        let [now, old] = [None, Some(seconds(30))]
            .map(|age| waiting::still_waiting(&init, &seen, ahead, seconds(75), age));
        format!("{first}\n{now}\n{old}\n")
    });
    assert_snapshot!(texts.concat());
}

#[test]
fn texts_for_a_success_that_makes_a_run_unnecessary() {
    let success = Success {
        token: TOKEN,
        holder: "web-1/4711".to_owned(),
        at: "2026-11-20T09:30:00.000000Z".to_owned(),
        ago: seconds(7_205),
    };
    let key = |key: &str| Some(Once::Ever(key.parse().expect("a valid key")));
    let texts = [
        None,
        Some(Once::Ever(OnceKey::default())),
        key("v1.42"),
        Some(Once::Per(seconds(86_400))),
    ];
    let texts = texts.map(|once| messages::done(&action("init"), once.as_ref(), &success));
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn texts_for_a_difference_of_the_clocks() {
    let texts =
        [(100, 100), (100, 102), (102, 100), (100, 101), (0, 90_061)].map(|(server, ours)| {
            let text = messages::clock_difference(seconds(server), seconds(ours));
            format!("{server} and {ours}: {}", text.as_deref().unwrap_or("none"))
        });
    assert_snapshot!(texts.join("\n"));
}

/// A message of one kind.
struct Sample {
    level: Verbosity,
    /// Label of the other process or of the operator. None if there is neither.
    holder: Option<&'static str>,
    /// The exit status. None if the message does not contain the reason for it.
    status: Option<u8>,
    text: String,
}

/// Returns a message of `kind`, with the level that it has in a run. The match ensures that each kind has a message.
/// The module `commands` builds some of these texts. Those texts are only examples here; `tests/it` checks the real
/// texts.
fn sample(kind: EventKind) -> Sample {
    use Verbosity::{Normal, Quiet, Verbose};
    let seen = held("init");
    let init = &seen.action;
    let other = Some("web-1/4711");
    let plain = |level, text: &str| (level, None, None, text.to_owned());
    let (level, holder, status, text) = match kind {
        EventKind::Message => plain(Normal, "init (v1) was not recorded as done"),
        EventKind::Waiting => (Normal, other, None, waiting::waiting(init, &seen, 1)),
        EventKind::NoNamedLocks => plain(
            Verbose,
            "named locks do not work on this server: waiting for init by polling",
        ),
        EventKind::ClockStep => plain(
            Normal,
            "the server's clock was set back by 1h; ages in dlock status are off by that",
        ),
        EventKind::ClockDifference => {
            let text = messages::clock_difference(seconds(9), seconds(5));
            plain(Normal, text.as_deref().expect("a difference"))
        }
        EventKind::ReadOnly => plain(Normal, messages::READ_ONLY),
        EventKind::Granted => plain(
            Verbose,
            &format!("acquired init in {} (token {TOKEN})", duration(seconds(3))),
        ),
        EventKind::Nested => plain(
            Verbose,
            "init is held by the outer dlock (token 17): running under its lease",
        ),
        EventKind::SessionsLeft => {
            let session = messages::session(&listed_session());
            let text = format!(
                "waiting until {session}, which the command of init left on the server, has ended"
            );
            plain(Normal, &text)
        }
        EventKind::SessionsEnded => plain(
            Normal,
            "ended 2 sessions that the command of init left on the server",
        ),
        EventKind::ProcessesKilled => {
            let named = |pid, name: &str| (pid, name.to_owned());
            let leftovers = Leftovers {
                number: 4,
                shown: vec![named(41, "nginx"), named(42, "sleep"), named(43, "")],
            };
            let text = messages::killed_leftovers("the command of init", &leftovers);
            plain(Normal, &text)
        }
        EventKind::Disconnected => plain(
            Normal,
            "the server has closed the connection of init; reconnecting",
        ),
        EventKind::RenewalFailed => plain(Normal, "cannot renew init: refused; trying again"),
        EventKind::GrantLost => plain(Normal, &lost_grant::reasserting(init)),
        EventKind::Renewed => plain(Normal, "init is renewed again after 4s"),
        EventKind::Connected => plain(Verbose, &connected().to_string()),
        EventKind::Listening => plain(Normal, "listening on http://127.0.0.1:7878/"),
        EventKind::HostSkipped => plain(Verbose, &skipped().to_string()),
        EventKind::Renewal => plain(Verbose, "renewed the lease of init in 3ms"),
        EventKind::Suspended => plain(Normal, &messages::suspended(init, seconds(23))),
        EventKind::Lost => {
            let why = messages::holding(init, &seen);
            let text = format!("lost init: {why}; stopping the command");
            (Quiet, other, None, text)
        }
        EventKind::Stopping => plain(Quiet, "init has run for 1h; stopping the command"),
        EventKind::Signal => plain(Verbose, "forwarded SIGTERM (15) to the command"),
        EventKind::Ended => plain(Verbose, "the command exited with 3"),
        EventKind::Stuck => plain(
            Quiet,
            "process 4712 of the command does not die; init is not released before it does",
        ),
        EventKind::Released => plain(Verbose, "init is released"),
        EventKind::Paused => (Normal, other, None, "init is paused for 30m".to_owned()),
        EventKind::Resumed => plain(Normal, "init is resumed"),
        EventKind::NotReleased => plain(
            Normal,
            "cannot release init: no answer from the server; it expires within 30s",
        ),
        EventKind::NotRecorded => plain(Normal, "this run of init is not in the history: refused"),
        EventKind::Skipped => {
            let why = messages::was_held(init, &seen);
            let text = format!("{why}; gave up after {}", duration(seconds(60)));
            (Quiet, other, Some(75), text)
        }
        EventKind::HookFailed => plain(Normal, "--on-event for granted exited with 1"),
        EventKind::MetricsFailed => plain(Normal, "cannot write the metrics to /m.prom: disk full"),
        EventKind::MessagesDropped => plain(Quiet, &messages::dropped(1)),
        EventKind::Failed => (Quiet, None, Some(69), "cannot reach db:3306".to_owned()),
    };
    Sample {
        level,
        holder,
        status,
        text,
    }
}

fn tcp(host: &str) -> Address {
    Address::Tcp {
        host: host.to_owned(),
        port: 3306,
    }
}

fn connected() -> ConnectedServer {
    ConnectedServer {
        address: tcp("db"),
        version: Some("10.11.19-MariaDB".to_owned()),
        tls: Some(SslMode::VerifyIdentity),
        session_id: 35,
        skipped: Vec::new(),
    }
}

fn skipped() -> SkippedHost {
    let reason = "cannot reach a:3306: Connection refused (os error 111)";
    SkippedHost::new(tcp("a"), reason)
}

/// Returns true for a kind that is reported before a grant or without one. Such a message has no token.
const fn has_no_grant(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Message
            | EventKind::Waiting
            | EventKind::NoNamedLocks
            | EventKind::Connected
            | EventKind::Listening
            | EventKind::HostSkipped
            | EventKind::ClockDifference
            | EventKind::ReadOnly
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Skipped
            | EventKind::Failed
    )
}

/// Returns a message of each kind as the program writes it, except for the time in JSON.
fn samples(format: Format) -> String {
    let lines = EventKind::ALL.iter().copied().map(|kind| {
        let Sample {
            level,
            holder,
            status,
            text,
        } = sample(kind);
        let mut meta = kind.by(holder);
        if let Some(status) = status {
            meta = meta.ending_with(status);
        }
        let context = Context {
            action: Some("init".to_owned()),
            token: (!has_no_grant(kind)).then_some(TOKEN.0),
        };
        whole_lines(without_time(line(format, level, meta, &context, &text)))
    });
    lines.collect()
}

/// Replaces the time in a line of JSON with a constant.
fn without_time(line: String) -> String {
    const START: &str = "{\"time\":\"";
    let Some((time, rest)) = line
        .strip_prefix(START)
        .and_then(|rest| rest.split_once('"'))
    else {
        return line;
    };
    assert_eq!(time.len(), "2026-11-20T09:45:13.042Z".len(), "{line}");
    format!("{START}TIME\"{rest}")
}

#[test]
fn messages_of_every_kind_as_text() {
    assert_snapshot!(samples(Format::Text));
}

#[test]
fn messages_of_every_kind_as_json() {
    assert_snapshot!(samples(Format::Json));
}

#[test]
fn message_without_an_action_as_json() {
    let meta = EventKind::Failed.by(None).ending_with(70);
    let context = Context::default();
    let line = line(
        Format::Json,
        Verbosity::Quiet,
        meta,
        &context,
        "internal error",
    );
    assert_snapshot!(without_time(line));
}

#[test]
fn messages_with_long_and_hostile_text() {
    let lines = [LONG, HOSTILE].map(|text| {
        let context = Context {
            action: Some(text.to_owned()),
            token: Some(u64::MAX),
        };
        let meta = EventKind::Lost.by(Some(text));
        let line = |format| line(format, Verbosity::Quiet, meta, &context, text);
        line(Format::Text) + &without_time(line(Format::Json))
    });
    assert_snapshot!(lines.concat());
}

#[test]
fn texts_for_dropped_messages() {
    let texts = [1, 2].map(messages::dropped);
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn pauses_between_reminders_grow_to_five_minutes() {
    let pauses = std::iter::successors(Some(FIRST_REMINDER_PAUSE), |pause| {
        Some(next_reminder_pause(*pause))
    });
    let pauses: Vec<u64> = pauses.take(7).map(|pause| pause.as_secs()).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    let reads = pauses
        .iter()
        .map(|pause| read_pause(std::time::Duration::from_secs(*pause)).as_secs());
    assert_eq!(reads.collect::<Vec<_>>(), [30, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn texts_for_a_database_that_has_lost_a_grant() {
    let seen = held("init");
    let init = &seen.action;
    let free = LockRecord::never_held(init.clone());
    assert_snapshot!(
        [
            lost_grant::reasserting(init),
            lost_grant::not_reasserted(init, &seen),
            lost_grant::not_reasserted(init, &free),
            lost_grant::taken_early(init, &seen),
            lost_grant::not_released(init),
            lost_grant::outwaiting(init, seconds(23)),
        ]
        .join("\n")
    );
}
