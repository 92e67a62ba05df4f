//! Tests of messages as JSON. Each line on stderr is one JSON object.

use serde_json::{Value, json};
use testkit::cli_runner::Dlock;
use testkit::holder::{Holder, steal, token};
use testkit::network::refusing;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

use crate::secrets::assert_harmless;

/// Parses the messages in `text`. Panics if a message is not a JSON object with the fields that all messages have.
#[track_caller]
pub(crate) fn messages(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let parsed = text.lines().map(|line| {
        let message: Result<Value, _> = serde_json::from_str(line);
        let message = message.unwrap_or_else(|error| panic!("{error} in {line:?} of {text:?}"));
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

/// Returns the first message with the event `event`, which must have the fields `wanted`. A field that is null in
/// `wanted` must be absent.
#[track_caller]
fn first(messages: &[Value], event: &str, wanted: &Value) -> Value {
    let found = messages.iter().find(|message| message["event"] == event);
    let found = found.unwrap_or_else(|| panic!("no {event} in {messages:#?}"));
    has(found, wanted);
    found.clone()
}

/// Asserts that `document` has the fields `wanted`, with their values.
#[track_caller]
pub(crate) fn has(document: &Value, wanted: &Value) {
    for (field, value) in wanted.as_object().expect("an object") {
        assert_eq!(&document[field], value, "{field} in {document:#}");
    }
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
    let outcome = verbose.end().exited(3);
    let mut messages = messages(&outcome.stderr);
    let first_renewal = first(&messages, "renewal", &json!({"level": "debug"}));
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

    let messages = self::messages(&holder(&database, &[]).end().stderr);
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
        assert_harmless(&outcome.stderr);
        (outcome.status, messages(&outcome.stderr))
    };
    let (_, messages) = exec(&["-w", "50ms"]);
    let of_holder = json!({"holder": HOSTILE, "holder_token": token(&database), "level": "info"});
    let waiting = first(&messages, "waiting", &of_holder);
    let text = waiting["message"].as_str().expect("a string");
    let start = format!("init is held by {HOSTILE} (token ");
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("; you are next"), "{text}");
    assert_eq!(waiting["ahead"], 0);
    assert!(waiting["waited_ms"].is_u64(), "{waiting}");
    let expires_in = waiting["expires_in_ms"].as_i64().expect("a number");
    assert!((1..=30_000).contains(&expires_in), "{waiting}");

    for (options, status, level) in [(&["-n"][..], 75, "error"), (&["-nE0"], 0, "info")] {
        let (code, messages) = exec(options);
        assert_eq!(code, Some(status), "{messages:#?}");
        assert_eq!(messages.len(), 1, "{messages:#?}");
        let wanted = json!({"holder": HOSTILE, "status": status, "level": level, "token": null});
        first(&messages, "skipped", &wanted);
    }

    let wait = ["wait", "init", "--timeout=2s", "--log-format=json"];
    let messages = self::messages(&Dlock::on(&database, wait).run().stderr);
    let waiting = first(&messages, "waiting", &of_holder);
    assert!(waiting.get("ahead").is_none(), "{waiting}");
    first(&messages, "failed", &json!({"status": 75}));
    // Messages as JSON on a terminal are never rewritten.
    let words = "exec -a init --log-format=json -w 1500ms -- true".split(' ');
    let words = [env!("CARGO_BIN_EXE_dlock")].into_iter().chain(words);
    let mut terminal = Terminal::with(&database, words);
    assert_eq!(terminal.ends(), Some(75));
    let screen = terminal.screen().replace("\r\n", "\n");
    assert!(!screen.contains(['\r', '\u{1b}']), "{screen:?}");
    let messages = self::messages(&screen);
    for event in ["waiting", "skipped"] {
        first(&messages, event, &json!({"holder": HOSTILE}));
    }
    holder.end();

    let once = ["--once", "--holder=web-2"];
    assert_eq!(exec(&once).0, Some(0));
    let done = json!({"holder": "web-2", "level": "info", "status": 0});
    first(&exec(&once).1, "skipped", &done);
}

#[test]
fn failed_renewals_and_a_lost_lease_have_separate_events() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let proxy = Proxy::to(database.port);
    let holder = holder(&database.through(proxy.port()), &["--ttl=6s"]);
    let own_token = token(&database);
    proxy.next(Kind::Renew, Fault::Reset).wait();
    holder.running.wait_for_output("is renewed again");
    steal(&database);
    let outcome = holder.running.wait().exited(76);
    let messages = messages(&outcome.stderr);
    for event in ["renewal-failed", "renewed"] {
        first(
            &messages,
            event,
            &json!({"level": "info", "token": own_token}),
        );
    }
    // The message names the new holder.
    let lost = json!({"level": "error", "token": own_token, "holder": "a thief"});
    first(&messages, "lost", &lost);
}

#[test]
fn failures_before_a_run_are_json() {
    let port = refusing(1045, "no");
    let url = format!("mysql://u@127.0.0.1:{port}/db");
    let run = |words: &str| {
        let dlock = Dlock::new(words.split(' ')).env("DLOCK_URL", &url);
        dlock.env("DLOCK_OPT_LOG_FORMAT", "json").run()
    };
    // The format of a usage error comes from the variable or from the command line, even if another option is invalid.
    for (words, status) in [
        ("exec -a init -- true", 77),
        ("wait init", 77),
        ("setup", 77),
        ("status", 77),
        ("exec -a init -- no-such-command", 127),
        ("exec --no-such-option", 64),
        ("exec init ls", 64),
        ("exec", 64),
        ("frobnicate", 64),
        ("exec --log-format=json init --ttl=soon -- ls", 64),
        ("status --log-format json --watch 1s", 64),
    ] {
        let outcome = run(words);
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
        let lines = messages(&outcome.stderr);
        let wanted = json!({"level": "error", "status": status});
        let failed = first(&lines, "failed", &wanted);
        if status == 64 {
            assert_eq!(lines.len(), 1, "{outcome:#?}");
            let text = failed["message"].as_str().expect("a string");
            assert!(!text.starts_with("error: "), "{text}");
        }
        if status == 127 {
            assert_eq!(failed["action"], "init");
        }
    }
    run("status --log-format=xml").expect(64, "", "[possible values: text, json]");
    run("status --log-format=text --no-such-option").expect(64, "", "error: unexpected argument");
    let help = run("status -h").stdout;
    assert!(help.starts_with("Show holders and waiters"), "{help}");
}

#[test]
fn operator_messages_are_json_and_the_holder_logs_the_operator() {
    let database = shared(Flavour::of_this_test()).database("logs");
    let run = |words: &[&str]| {
        let outcome = Dlock::on(&database, words).arg("--log-format=json").run();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        messages(&outcome.stderr)
    };
    first(&run(&["setup"]), "message", &json!({"level": "info"}));
    let holder = holder(&database, &["--holder=web-1"]);
    let forget = run(&["forget", "-a", "init", "--once"]);
    first(&forget, "message", &json!({"action": "init"}));
    let release = ["release", "-y", "init", "--operator=eve", "--reason=stuck"];
    // The details of the lock are text for users, so they are not part of the JSON messages.
    let released = json!({"holder": "web-1", "action": "init"});
    first(&run(&release), "released", &released);

    let outcome = holder.running.wait().exited(76);
    let wanted = json!({"holder": "eve"});
    let lost = first(&messages(&outcome.stderr), "lost", &wanted);
    let text = lost["message"].as_str().expect("a string");
    assert!(text.contains("released by eve (reason: stuck)"), "{text}");

    for (option, event) in [("--pause=1m", "paused"), ("--resume", "resumed")] {
        let messages = run(&["release", "-a", "init", "-y", option]);
        first(&messages, event, &json!({"action": "init"}));
    }
}
