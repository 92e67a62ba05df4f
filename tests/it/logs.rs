//! Tests of messages as JSON. Each line on stderr is one JSON object.

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome};
use testkit::holder::{Holder, steal, token};
use testkit::network::refusing;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

/// Parses the messages in `text`. Panics if a message is not a JSON object with the fields that all messages have.
#[track_caller]
pub(crate) fn messages(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let parsed = text.lines().map(|line| {
        let message: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error} in {line:?} of {text:?}"));
        for field in ["time", "level", "event", "message"] {
            assert!(message[field].is_string(), "no {field} in {line}");
        }
        let time = message["time"].as_str().expect("a string");
        humantime::parse_rfc3339(time).expect("the time is in RFC 3339");
        assert_eq!(time.len(), "2026-11-20T09:30:00.123Z".len(), "{time}");
        message
    });
    parsed.collect()
}

/// Returns the messages that a finished run wrote to stderr.
#[track_caller]
fn logged(outcome: &Outcome) -> Vec<Value> {
    messages(&outcome.stderr)
}

/// Returns the first message with the event `event`. Panics if there is no such message.
#[track_caller]
fn first(messages: &[Value], event: &str) -> Value {
    let found = messages.iter().find(|message| message["event"] == event);
    found
        .unwrap_or_else(|| panic!("no {event} in {messages:#?}"))
        .clone()
}

fn holder(database: &Database, options: &[&str]) -> Holder {
    Holder::on(database, &[&["--log-format=json"], options].concat())
}

#[test]
fn verbose_run_logs_each_step_with_action_and_token() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("logs");
        let outcome = holder(&database, &["-v"]).end();
        assert_eq!(outcome.status, Some(3), "{flavour}: {outcome:#?}");
        let messages = logged(&outcome);
        let events: Vec<&str> = messages
            .iter()
            .map(|message| message["event"].as_str().expect("a string"))
            .collect();
        assert_eq!(
            events,
            ["connected", "granted", "ended", "released"],
            "{flavour}"
        );
        for message in &messages {
            assert_eq!(message["action"], "init", "{flavour}");
        }
        // Programs count grants and releases, so these are not only for -v.
        let levels: Vec<_> = messages.iter().map(|message| &message["level"]).collect();
        assert_eq!(levels, ["debug", "info", "debug", "info"], "{flavour}");
        for message in &messages[1..] {
            assert_eq!(message["token"], token(&database), "{flavour}");
        }
        let connected = messages[0]["message"].as_str().expect("a string");
        let address = format!("connected to 127.0.0.1:{} (server version ", database.port);
        assert!(connected.starts_with(&address), "{connected}");
        assert!(connected.contains(", no TLS, session "), "{connected}");
        let version: Option<String> = database
            .admin_conn()
            .query_first("SELECT VERSION()")
            .expect("the server responds");
        let version = version.expect("the server has a version");
        assert!(connected.contains(&version), "{connected}");
        assert_eq!(messages[2]["message"], "the command exited with 3");
    }
}

#[test]
fn verbose_run_logs_each_renewal_with_its_duration() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["-v", "--ttl=2s"]);
    holder
        .running
        .wait_for_output("renewed the lease of init in ");
    let messages = logged(&holder.end());
    let renewal = first(&messages, "renewal");
    assert_eq!(renewal["level"], "debug", "{flavour}");
    let text = renewal["message"].as_str().expect("a string");
    let took = text.strip_prefix("renewed the lease of init in ");
    let took = took.and_then(|took| humantime::parse_duration(took).ok());
    assert!(took.is_some(), "{text}");
}

#[test]
fn run_without_verbose_logs_the_grant_and_the_release_unless_quiet() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let messages = logged(&holder(&database, &[]).end());
    let events: Vec<_> = messages.iter().map(|message| &message["event"]).collect();
    assert_eq!(events, ["granted", "released"], "{flavour}");
    let quiet = holder(&database, &["-q"]).end();
    assert_eq!((quiet.status, &*quiet.stderr), (Some(3), ""));
}

#[test]
fn waiting_and_skipped_messages_name_the_holder() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["--holder=web-1"]);
    let waiter = ["exec", "-a", "init", "--log-format=json", "-w", "50ms"];
    let waiter = Dlock::on(&database, waiter).args(["--", "true"]).run();
    let messages = logged(&waiter);
    let waiting = first(&messages, "waiting");
    assert_eq!(waiting["holder"], "web-1", "{flavour}");
    assert_eq!(waiting["level"], "info", "{flavour}");
    let text = waiting["message"].as_str().expect("a string");
    assert!(text.starts_with("init is held by web-1 (token "), "{text}");
    assert!(text.ends_with("; you are next"), "{text}");
    assert_eq!(waiting["ahead"], 0, "{flavour}");
    assert_eq!(waiting["holder_token"], token(&database), "{flavour}");
    assert!(waiting["waited_ms"].is_u64(), "{flavour}: {waiting}");
    let expires_in = waiting["expires_in_ms"].as_i64().expect("a number");
    assert!((1..=30_000).contains(&expires_in), "{flavour}: {waiting}");

    for (options, status, level) in [(&["-n"][..], 75, "error"), (&["-nE0"], 0, "info")] {
        let skipped = Dlock::on(&database, ["exec", "-a", "init"])
            .env("DLOCK_OPT_LOG_FORMAT", "json")
            .args(options)
            .args(["--", "true"])
            .run();
        assert_eq!(skipped.status, Some(status), "{flavour}: {skipped:#?}");
        let messages = logged(&skipped);
        assert_eq!(messages.len(), 1, "{flavour}: {messages:#?}");
        let message = first(&messages, "skipped");
        assert_eq!(message["holder"], "web-1", "{flavour}");
        assert_eq!(message["status"], status, "{flavour}");
        assert_eq!(message["level"], level, "{flavour}");
        assert!(message.get("token").is_none(), "{flavour}: {message}");
    }
    holder.end();

    let once = ["exec", "-a", "once", "--once", "--log-format=json"];
    let once = || Dlock::on(&database, once).args(["--holder=web-2", "--", "true"]);
    assert_eq!(once().run().status, Some(0));
    let messages = logged(&once().run());
    let done = first(&messages, "skipped");
    assert_eq!(done["holder"], "web-2", "{flavour}");
    assert_eq!(
        (&done["level"], &done["status"]),
        (&"info".into(), &0.into())
    );
}

#[test]
fn renewal_failure_and_recovery_have_separate_events() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let proxy = Proxy::to(database.port);
    let url = database.url_through(proxy.port());
    let options = ["--log-format=json", "--ttl=6s"];
    let holder = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &options);
    let case = proxy.next(Kind::Renew, Fault::Reset);
    case.wait();
    holder.running.wait_for_output("is renewed again");
    let messages = logged(&holder.end());
    let failed = first(&messages, "renewal-failed");
    assert_eq!(failed["level"], "info", "{flavour}");
    assert_eq!(failed["token"], token(&database), "{flavour}");
    let renewed = first(&messages, "renewed");
    assert_eq!(renewed["level"], "info", "{flavour}");
}

#[test]
fn lost_message_names_the_new_holder() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["--ttl=2s"]);
    let own_token = token(&database);
    steal(&database);
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:#?}");
    let lost = first(&logged(&outcome), "lost");
    assert_eq!(lost["holder"], "a thief", "{flavour}");
    assert_eq!(lost["level"], "error", "{flavour}");
    assert_eq!(lost["token"], own_token, "{flavour}");
}

#[test]
fn failures_before_a_run_are_json() {
    let port = refusing(1045, "no");
    let url = format!("mysql://u@127.0.0.1:{port}/db");
    let run = |words: &[&str]| {
        Dlock::new(words)
            .env("DLOCK_URL", &url)
            .env("DLOCK_OPT_LOG_FORMAT", "json")
            .run()
    };
    for words in [
        &["exec", "-a", "init", "--", "true"][..],
        &["wait", "init"],
        &["setup"],
        &["status"],
    ] {
        let outcome = run(words);
        assert_eq!(outcome.status, Some(77), "{outcome:#?}");
        let failed = first(&logged(&outcome), "failed");
        assert_eq!(
            (&failed["level"], &failed["status"]),
            (&"error".into(), &77.into())
        );
    }
    let missing = run(&["exec", "-a", "init", "--", "no-such-command"]);
    let failed = first(&logged(&missing), "failed");
    assert_eq!(failed["status"], 127);
    assert_eq!(failed["action"], "init");

    // The format of a usage error comes from the variable or from the command line, even if another option is invalid.
    for words in [
        &["exec", "--no-such-option"][..],
        &["exec", "init", "ls"],
        &["exec"],
        &["frobnicate"],
        &[
            "exec",
            "--log-format=json",
            "init",
            "--ttl=soon",
            "--",
            "true",
        ],
        &["status", "--log-format", "json", "--watch", "1s"],
    ] {
        let outcome = run(words);
        assert_eq!(outcome.status, Some(64), "{outcome:#?}");
        let lines = logged(&outcome);
        assert_eq!(lines.len(), 1, "{outcome:#?}");
        let failed = first(&lines, "failed");
        assert_eq!(
            (&failed["level"], &failed["status"]),
            (&"error".into(), &64.into())
        );
        let text = failed["message"].as_str().expect("a string");
        assert!(!text.starts_with("error: "), "{text}");
    }
    run(&["status", "--log-format=xml"]).expect(64, "", "[possible values: text, json]");
    let text = run(&["status", "--log-format=text", "--no-such-option"]);
    text.expect(64, "", "error: unexpected argument");
    let help = run(&["status", "-h"]);
    assert!(
        help.stdout.starts_with("Show holders and waiters"),
        "{help:#?}"
    );
}

#[test]
fn other_subcommands_log_json_messages() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let run = |words: &[&str]| Dlock::on(&database, words).arg("--log-format=json").run();
    let setup = first(&logged(&run(&["setup"])), "message");
    assert_eq!(setup["level"], "info", "{flavour}");
    let forget = first(
        &logged(&run(&["forget", "-a", "init", "--once"])),
        "message",
    );
    assert_eq!(forget["action"], "init", "{flavour}");

    let holder = holder(&database, &["--holder=web-1"]);
    let messages = logged(&run(&["wait", "init", "--timeout=2s"]));
    let waiting = first(&messages, "waiting");
    assert_eq!(waiting["holder"], "web-1", "{flavour}");
    assert_eq!(waiting["holder_token"], token(&database), "{flavour}");
    assert!(waiting.get("ahead").is_none(), "{flavour}: {waiting}");
    assert_eq!(first(&messages, "failed")["status"], 75, "{flavour}");
    holder.end();
}

#[test]
fn holder_logs_the_operator_that_revoked_its_lease() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["--holder=web-1"]);
    let release = [
        "release",
        "-a",
        "init",
        "--yes",
        "--operator=eve",
        "--reason=stuck",
    ];
    let release = Dlock::on(&database, release).arg("--log-format=json").run();
    assert_eq!(release.status, Some(0), "{flavour}: {release:#?}");
    // The details of the lock are text for users, so they are not part of the JSON messages.
    let released = first(&logged(&release), "released");
    assert_eq!(released["holder"], "web-1", "{flavour}");
    assert_eq!(released["action"], "init", "{flavour}");

    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:#?}");
    let lost = first(&logged(&outcome), "lost");
    assert_eq!(lost["holder"], "eve", "{flavour}");
    let text = lost["message"].as_str().expect("a string");
    assert!(text.contains("released by eve (reason: stuck)"), "{text}");

    for (options, event) in [(&["--pause=1m"][..], "paused"), (&["--resume"], "resumed")] {
        let release = ["release", "-a", "init", "-y", "--log-format=json"];
        let release = Dlock::on(&database, release).args(options).run();
        first(&logged(&release), event);
    }
}

#[test]
fn json_messages_on_a_terminal_are_never_rewritten() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["--holder=web-1"]);
    let words = [env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init"];
    let words = words
        .into_iter()
        .chain(["--log-format=json", "-w", "1500ms", "--", "true"]);
    let mut terminal = Terminal::with(&database, words);
    assert_eq!(terminal.ends(), Some(75), "{flavour}");
    let screen = terminal.screen().replace("\r\n", "\n");
    assert!(!screen.contains(['\r', '\u{1b}']), "{screen:?}");
    let messages = messages(&screen);
    assert_eq!(first(&messages, "waiting")["holder"], "web-1");
    first(&messages, "skipped");
    holder.end();
}

#[test]
fn hostile_label_stays_inside_its_json_string() {
    const HOSTILE: &str =
        "web\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2028}\r\n{\"event\":\"forged\"}\"\\";
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("logs");
    let holder = holder(&database, &["--holder", HOSTILE, "--note", HOSTILE]);
    let waiter = ["exec", "-a", "init", "--log-format=json", "-w", "50ms"];
    let outcome = Dlock::on(&database, waiter).args(["--", "true"]).run();
    let harmful = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
    assert!(!outcome.stderr.contains(harmful), "{outcome:#?}");
    for message in logged(&outcome) {
        assert_ne!(message["event"], "forged", "{flavour}");
        assert_eq!(message["holder"], HOSTILE, "{flavour}");
        let text = message["message"].as_str().expect("a string");
        assert!(text.contains(HOSTILE), "{flavour}: {text:?}");
    }
    holder.end();
}
