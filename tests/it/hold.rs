//! `dlock hold --json`: the lease of a program that dlock has not started.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::{operator_releases, renewals};
use testkit::proxy::{AcceptMode, Flow, Proxy};
use testkit::servers::{Database, database};

use crate::history::runs;
use crate::logs::has;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../docs/hold-events.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
});

/// Returns true if `value` has the form of `schema`, as far as the keywords of that file go, and no other fields.
fn conforms<'a>(value: &Value, schema: &'a Value) -> bool {
    let is_type = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("null") => value.is_null(),
        _ => panic!("an unknown type: {name}"),
    };
    let fields = || value.as_object().expect("an object").iter();
    let list = |rule: &'a Value| rule.as_array().expect("an array").iter();
    let mut rules = schema.as_object().expect("an object").iter();
    rules.all(|(keyword, rule)| match &**keyword {
        "$schema" | "title" => true,
        "type" if rule.is_array() => list(rule).any(is_type),
        "type" => is_type(rule),
        "const" => value == rule,
        "required" => list(rule).all(|name| value.get(name.as_str().expect("a name")).is_some()),
        "properties" => {
            fields().all(|(name, field)| rule.get(name).is_some_and(|it| conforms(field, it)))
        }
        "additionalProperties" => fields().all(|(_, field)| conforms(field, rule)),
        "oneOf" => list(rule).filter(|form| conforms(value, form)).count() == 1,
        _ => panic!("an unknown keyword: {keyword}"),
    })
}

/// A `dlock hold init --json` and its pipes.
struct Hold {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Hold {
    fn start(url: &str, options: &[&str]) -> Self {
        let mut process = hold(url, options, Stdio::piped());
        let stdout = process.stdout.take().expect("a pipe");
        Self {
            stdin: process.stdin.take(),
            stdout: BufReader::new(stdout),
            process,
        }
    }

    fn granted(url: &str, options: &[&str]) -> (Self, Value) {
        let mut hold = Self::start(url, options);
        let granted = hold.event("granted");
        (hold, granted)
    }

    /// Returns the next event, which has the documented form. None at the end of stdout.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.stdout.read_line(&mut line).expect("stdout is read");
        let event = (length > 0).then(|| serde_json::from_str(&line).expect("each line is JSON"));
        if let Some(event) = &event {
            assert!(conforms(event, &SCHEMA), "not in the schema: {event}");
        }
        event
    }

    /// Returns the next event with the name `name`, which follows other ones only if they are `renewed`.
    #[track_caller]
    fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next().expect("an event follows");
            match event["event"].as_str() {
                Some(found) if found == name => return event,
                Some("renewed" | "waiting" | "failing") => {}
                _ => panic!("{event} instead of {name}"),
            }
        }
    }

    fn signal(&self, signal: &str) {
        testkit::command::signal(self.process.id(), signal);
    }

    fn status(&mut self) -> Option<i32> {
        self.process.wait().expect("dlock ends").code()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hold(url: &str, options: &[&str], stdout: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_dlock"))
        .args(["hold", "init", "--json", "--ttl=6s"])
        .args(options)
        .env("DLOCK_URL", url)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .spawn()
        .expect("dlock can be started")
}

/// Returns the time since boot in milliseconds.
fn now() -> u64 {
    let now = dlock::sys::clock::now().since_boot();
    u64::try_from(now.as_millis()).expect("a short time")
}

/// Returns the status of a contender that does not wait.
fn contend(database: &Database) -> Option<i32> {
    let contend = ["exec", "init", "-n", "--", "true"];
    Dlock::on(database, contend).run().status
}

#[test]
fn program_holds_the_lock_until_it_closes_stdin() {
    let database = database();
    let url = database.url();
    let (mut hold, granted) = Hold::granted(&url, &["--holder=app"]);
    let (stop_at, deadline) = (&granted["stop_at_ms"], &granted["deadline_ms"]);
    let (stop_at, deadline) = (stop_at.as_u64(), deadline.as_u64());
    assert!(Some(now()) < stop_at && stop_at < deadline, "{granted}");
    assert!(deadline < Some(now() + 6_000), "{granted}");
    has(&granted, &json!({"format": 1, "holder": "app"}));
    assert_eq!(granted["env"]["DLOCK_ACTION"], json!("init"));
    assert_eq!(contend(&database), Some(75));
    let mut waiter = Hold::start(&url, &[]);
    assert_eq!(waiter.event("waiting")["holder"], json!("app"));
    let renewed = hold.event("renewed");
    assert!(renewed["stop_at_ms"].as_u64() > stop_at, "{renewed}");

    hold.stdin = None;
    hold.event("released");
    assert_eq!(hold.next(), None);
    assert_eq!(hold.status(), Some(0));
    assert!(waiter.event("granted")["token"].as_u64() > granted["token"].as_u64());
    waiter.stdin = None;
    assert_eq!(waiter.status(), Some(0));
    let run = json!({"outcome": "exited", "token": granted["token"]});
    has(&runs(&database, &["init"])[1], &run);
}

/// A program may work until the published instant, so the lock is not free before, unless it closes stdin.
#[test]
fn program_that_is_told_to_stop_has_the_lock_until_it_closes_stdin() {
    let database = database();
    let url = database.url();
    let (mut hold, _) = Hold::granted(&url, &[]);
    hold.signal("TERM");
    assert_eq!(hold.event("lost")["status"], json!(0));
    assert_eq!(contend(&database), Some(75));
    hold.stdin = None;
    hold.event("released");
    assert_eq!(hold.status(), Some(0));

    // The program does nothing: the published deadline ends its time.
    let (mut hold, granted) = Hold::granted(&url, &["--max-runtime=100ms"]);
    assert_eq!(hold.event("lost")["status"], json!(124));
    hold.event("released");
    assert!(Some(now()) >= granted["deadline_ms"].as_u64());
    assert_eq!(hold.status(), Some(124));

    let (mut hold, _) = Hold::granted(&url, &[]);
    operator_releases(&database);
    has(&hold.event("lost"), &json!({"by": "ops", "status": 76}));
    assert_eq!(contend(&database), Some(75));
    hold.stdin = None;
    assert_eq!(hold.next(), None, "a lost lease is not released");
    assert_eq!(hold.status(), Some(76));
    assert_eq!(contend(&database), Some(0));
}

#[test]
fn program_without_a_server_learns_that_its_lease_is_lost_or_not_confirmed_as_released() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let (mut hold, granted) = Hold::granted(&database.url_through(proxy.port()), &["--grace=1s"]);
    let mut stop_at = granted["stop_at_ms"].as_u64();
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    let lost = loop {
        let event = hold.next().expect("an event follows");
        match event["event"].as_str() {
            Some("renewed") => stop_at = event["stop_at_ms"].as_u64(),
            Some("failing") => {}
            _ => break event,
        }
    };
    assert_eq!(lost["event"], json!("lost"), "{lost}");
    assert!(Some(now()) >= stop_at);
    assert_eq!(hold.next(), None);
    assert_eq!(hold.status(), Some(76));

    // The server does not respond to the release.
    let proxy = Proxy::to(database.port);
    let (mut hold, _) = Hold::granted(&database.url_through(proxy.port()), &[]);
    proxy.both(Flow::Hold);
    proxy.door(AcceptMode::Silent);
    hold.stdin = None;
    while let Some(event) = hold.next() {
        assert_ne!(event["event"], json!("released"));
    }
    assert_eq!(hold.status(), Some(69));
}

/// A killed or frozen dlock publishes nothing more, so the instants that the program knows are at most too early.
#[test]
fn lock_of_a_killed_or_frozen_dlock_is_not_free_before_the_published_instant() {
    let database = database();
    for signal in ["KILL", "STOP"] {
        let (mut hold, granted) = Hold::granted(&database.url(), &[]);
        hold.signal(signal);
        let next = ["exec", "init", "--ttl=6s", "--", "true"];
        assert_eq!(Dlock::on(&database, next).run().status, Some(0));
        assert!(Some(now()) >= granted["stop_at_ms"].as_u64(), "{signal}");
        hold.stdin = None;
        if signal == "STOP" {
            hold.signal("CONT");
            assert_eq!(hold.status(), Some(76));
        }
    }
}

#[test]
fn state_file_shows_the_published_instants_while_the_lock_is_held() {
    let database = database();
    let url = database.url();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("state");
    let option = format!("--state-file={}", file.display());
    let (mut hold, granted) = Hold::granted(&url, &[&option]);
    let renewed = hold.event("renewed");
    let state = || -> Option<Value> {
        let text = fs::read_to_string(&file).ok()?;
        Some(serde_json::from_str(&text).expect("the file is complete"))
    };
    eventually("the file shows the renewal", || {
        state().is_some_and(|it| it["stop_at_ms"].as_u64() >= renewed["stop_at_ms"].as_u64())
    });
    assert_eq!(state().expect("the file exists")["token"], granted["token"]);
    // The wait for the lock ends with stdin.
    let mut waiter = Hold::start(&url, &[&option]);
    waiter.event("waiting");
    waiter.stdin = None;
    assert_eq!(waiter.next(), None);
    assert_eq!(waiter.status(), Some(75));
    assert!(file.exists(), "a waiter has not written the file");
    hold.signal("TERM");
    eventually("the file is removed", || !file.exists());
    hold.event("lost");
    hold.stdin = None;
    assert_eq!(hold.status(), Some(0));
    assert!(!file.exists());

    let option = format!("--state-file={}/no/such/folder", folder.path().display());
    let hold = Dlock::on(&database, ["hold", "init", &option]);
    let hold = hold.stdin(Stdio::null()).start();
    hold.wait_for_output("cannot write the state file: ");
    hold.signal("TERM");
    assert_eq!(hold.wait().status, Some(0));
}

/// The pipe is full, so dlock cannot write an event.
#[test]
fn reader_that_does_not_read_delays_no_renewal() {
    let database = database();
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let size = rustix::pipe::fcntl_getpipe_size(&reader).expect("the pipe has a size");
    let written = writer.write_all(&vec![b' '; size]);
    written.expect("the bytes fit into the pipe");
    assert_eq!(contend(&database), Some(0), "the tables exist");
    let mut hold = hold(&database.url(), &[], writer.into());
    eventually("the lease is renewed", || renewals(&database) >= 2);
    drop(hold.stdin.take());
    assert_eq!(hold.wait().expect("dlock ends").code(), Some(0));
    assert_eq!(contend(&database), Some(0));
}

/// This process is the program.
#[test]
fn processes_of_the_program_run_under_its_lease() {
    let database = database();
    let (mut hold, granted) = Hold::granted(&database.url(), &[]);
    let inside = |arguments: &[&str]| {
        let variables = granted["env"].as_object().expect("an object");
        let dlock = Dlock::on(&database, arguments).stdin(Stdio::null());
        let with = |dlock: Dlock, (name, value): (&String, &Value)| {
            dlock.env(name, value.as_str().expect("a text"))
        };
        variables.iter().fold(dlock, with).run()
    };
    inside(&["exec", "init", "--", "echo", "inner"]).expect(0, "inner\n", "");
    inside(&["check"]).expect(0, "", "");
    inside(&["hold", "init", "-n"]).expect(64, "", "an outer dlock holds init already");
    hold.stdin = None;
    assert_eq!(hold.status(), Some(0));
    assert_eq!(inside(&["check"]).status, Some(76));
}

/// Without a program that reads stdin, only a signal ends the hold. `examples::systemd` tests the messages to systemd.
#[test]
fn hold_of_a_service_ends_with_sigterm_and_with_its_lease() {
    let database = database();
    let start = || {
        let hold = Dlock::on(&database, ["hold", "init", "--ttl=6s", "-v"]).start();
        hold.wait_for_output("acquired init");
        hold
    };
    let hold = start();
    hold.signal("TERM");
    hold.wait().exited(0);
    assert_eq!(contend(&database), Some(0));

    let hold = start();
    operator_releases(&database);
    let outcome = hold.wait();
    let token = outcome.stdout.trim_end();
    assert!(token.parse::<u64>().is_ok(), "only the token: {outcome:?}");
    let text = "lost init: released by ops; the hold ends";
    assert!(outcome.stderr.contains(text), "{outcome:?}");
    assert_eq!(outcome.status, Some(76));
    // The lease is left until its end.
    assert_eq!(contend(&database), Some(75));
}
