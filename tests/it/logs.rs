//! Tests of messages as JSON. Each line on stderr is one JSON object.

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
fn run_logs_each_step_with_action_and_token_unless_quiet() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let verbose = holder(&database, &["-v", "--ttl=6s"]);
    let renewal = "renewed the lease of init in ";
    verbose.running.wait_for_output(renewal);
    let outcome = verbose.end();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    let mut messages = logged(&outcome);
    let first_renewal = first(&messages, "renewal");
    assert_eq!(first_renewal["level"], "debug");
    let text = first_renewal["message"].as_str().expect("a string");
    let took = text.strip_prefix(renewal);
    let took = took.and_then(|took| humantime::parse_duration(took).ok());
    assert!(took.is_some(), "{text}");
    messages.retain(|message| message["event"] != "renewal");
    let fields = |messages: &[Value], field: &str| -> Vec<Value> {
        let fields = messages.iter().map(|message| message[field].clone());
        fields.collect()
    };
    let events = ["connected", "granted", "ended", "released"];
    assert_eq!(fields(&messages, "event"), events);
    assert_eq!(fields(&messages, "action"), ["init"; 4]);
    // Programs count grants and releases, so these are not only for -v.
    let levels = ["debug", "info", "debug", "info"];
    assert_eq!(fields(&messages, "level"), levels);
    assert_eq!(fields(&messages[1..], "token"), [token(&database); 3]);
    let connected = messages[0]["message"].as_str().expect("a string");
    let address = format!("connected to 127.0.0.1:{} (server version ", database.port);
    assert!(connected.starts_with(&address), "{connected}");
    assert!(connected.contains(", no TLS, session "), "{connected}");
    let version: String = database.value("SELECT VERSION()");
    assert!(connected.contains(&version), "{connected}");
    assert_eq!(messages[2]["message"], "the command exited with 3");

    let messages = logged(&holder(&database, &[]).end());
    assert_eq!(fields(&messages, "event"), ["granted", "released"]);
    let quiet = holder(&database, &["-q"]).end();
    assert_eq!((quiet.status, &*quiet.stderr), (Some(3), ""));
}

/// A label that would break or forge messages if a message contained it as it is.
const HOSTILE: &str = "web\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2028}\r\n{\"event\":\"forged\"}\"\\";

#[test]
fn waiting_and_skipped_messages_name_the_holder_in_one_line() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let holder = holder(&database, &["--holder", HOSTILE, "--note", HOSTILE]);
    let exec = |options: &[&str]| {
        let exec = Dlock::on(&database, ["exec", "-a", "init", "--log-format=json"]);
        let outcome = exec.args(options).args(["--", "true"]).run();
        let harmful =
            |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
        assert!(!outcome.stderr.contains(harmful), "{outcome:#?}");
        (outcome.status, logged(&outcome))
    };
    let (_, messages) = exec(&["-w", "50ms"]);
    let waiting = first(&messages, "waiting");
    assert_eq!(waiting["holder"], HOSTILE);
    assert_eq!(waiting["level"], "info");
    let text = waiting["message"].as_str().expect("a string");
    let start = format!("init is held by {HOSTILE} (token ");
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("; you are next"), "{text}");
    assert_eq!(waiting["ahead"], 0);
    assert_eq!(waiting["holder_token"], token(&database));
    assert!(waiting["waited_ms"].is_u64(), "{waiting}");
    let expires_in = waiting["expires_in_ms"].as_i64().expect("a number");
    assert!((1..=30_000).contains(&expires_in), "{waiting}");

    for (options, status, level) in [(&["-n"][..], 75, "error"), (&["-nE0"], 0, "info")] {
        let (code, messages) = exec(options);
        assert_eq!(code, Some(status), "{messages:#?}");
        assert_eq!(messages.len(), 1, "{messages:#?}");
        let message = first(&messages, "skipped");
        assert_eq!(message["holder"], HOSTILE);
        assert_eq!(message["status"], status);
        assert_eq!(message["level"], level);
        assert!(message.get("token").is_none(), "{message}");
    }

    let wait = ["wait", "init", "--timeout=2s", "--log-format=json"];
    let messages = logged(&Dlock::on(&database, wait).run());
    let waiting = first(&messages, "waiting");
    assert_eq!(waiting["holder"], HOSTILE);
    assert_eq!(waiting["holder_token"], token(&database));
    assert!(waiting.get("ahead").is_none(), "{waiting}");
    assert_eq!(first(&messages, "failed")["status"], 75);
    // Messages as JSON on a terminal are never rewritten.
    let words = [env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init"];
    let words = words
        .into_iter()
        .chain(["--log-format=json", "-w", "1500ms", "--", "true"]);
    let mut terminal = Terminal::with(&database, words);
    assert_eq!(terminal.ends(), Some(75));
    let screen = terminal.screen().replace("\r\n", "\n");
    assert!(!screen.contains(['\r', '\u{1b}']), "{screen:?}");
    let messages = self::messages(&screen);
    assert_eq!(first(&messages, "waiting")["holder"], HOSTILE);
    first(&messages, "skipped");
    holder.end();

    let once = ["--once", "--holder=web-2"];
    assert_eq!(exec(&once).0, Some(0));
    let done = first(&exec(&once).1, "skipped");
    assert_eq!(done["holder"], "web-2");
    let (level, status) = (&done["level"], &done["status"]);
    assert_eq!((level, status), (&"info".into(), &0.into()));
}

#[test]
fn failed_renewals_and_a_lost_lease_have_separate_events() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let proxy = Proxy::to(database.port);
    let url = database.url_through(proxy.port());
    let options = ["--log-format=json", "--ttl=6s"];
    let holder = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &options);
    let own_token = token(&database);
    proxy.next(Kind::Renew, Fault::Reset).wait();
    holder.running.wait_for_output("is renewed again");
    steal(&database);
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
    let messages = logged(&outcome);
    for (event, level) in [
        ("renewal-failed", "info"),
        ("renewed", "info"),
        ("lost", "error"),
    ] {
        let message = first(&messages, event);
        assert_eq!(message["level"], level);
        assert_eq!(message["token"], own_token, "{message}");
    }
    // The message names the new holder.
    assert_eq!(first(&messages, "lost")["holder"], "a thief");
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
    // The format of a usage error comes from the variable or from the command line, even if another option is invalid.
    let ttl = [
        "exec",
        "--log-format=json",
        "init",
        "--ttl=soon",
        "--",
        "ls",
    ];
    for (words, status) in [
        (&["exec", "-a", "init", "--", "true"][..], 77),
        (&["wait", "init"], 77),
        (&["setup"], 77),
        (&["status"], 77),
        (&["exec", "-a", "init", "--", "no-such-command"], 127),
        (&["exec", "--no-such-option"], 64),
        (&["exec", "init", "ls"], 64),
        (&["exec"], 64),
        (&["frobnicate"], 64),
        (&ttl, 64),
        (&["status", "--log-format", "json", "--watch", "1s"], 64),
    ] {
        let outcome = run(words);
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
        let lines = logged(&outcome);
        let failed = first(&lines, "failed");
        assert_eq!(failed["level"], "error");
        assert_eq!(failed["status"], status);
        if status == 64 {
            assert_eq!(lines.len(), 1, "{outcome:#?}");
            let text = failed["message"].as_str().expect("a string");
            assert!(!text.starts_with("error: "), "{text}");
        }
        if status == 127 {
            assert_eq!(failed["action"], "init");
        }
    }
    run(&["status", "--log-format=xml"]).expect(64, "", "[possible values: text, json]");
    let text = run(&["status", "--log-format=text", "--no-such-option"]);
    text.expect(64, "", "error: unexpected argument");
    let help = run(&["status", "-h"]).stdout;
    assert!(help.starts_with("Show holders and waiters"), "{help}");
}

#[test]
fn operator_messages_are_json_and_the_holder_logs_the_operator() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let run = |words: &[&str]| {
        let outcome = Dlock::on(&database, words).arg("--log-format=json").run();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        logged(&outcome)
    };
    let setup = first(&run(&["setup"]), "message");
    assert_eq!(setup["level"], "info");
    let holder = holder(&database, &["--holder=web-1"]);
    let forget = first(&run(&["forget", "-a", "init", "--once"]), "message");
    assert_eq!(forget["action"], "init");
    let release = ["release", "-y", "init", "--operator=eve", "--reason=stuck"];
    // The details of the lock are text for users, so they are not part of the JSON messages.
    let released = first(&run(&release), "released");
    assert_eq!(released["holder"], "web-1");
    assert_eq!(released["action"], "init");

    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
    let lost = first(&logged(&outcome), "lost");
    assert_eq!(lost["holder"], "eve");
    let text = lost["message"].as_str().expect("a string");
    assert!(text.contains("released by eve (reason: stuck)"), "{text}");

    for (option, event) in [("--pause=1m", "paused"), ("--resume", "resumed")] {
        first(&run(&["release", "-a", "init", "-y", option]), event);
    }
}
