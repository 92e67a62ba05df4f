//! A run that the machine does not let start: too few descriptors, processes or memory, closed standard streams, an empty
//! `/dev`, or a program whose interpreter is missing. dlock runs the command or says why it cannot.

use std::fs;
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::servers::{Database, database};

/// The program and the arguments of a short run.
const RUN: [&str; 7] = [
    env!("CARGO_BIN_EXE_dlock"),
    "exec",
    "--connect-timeout=10s",
    "-a",
    "init",
    "--",
    "true",
];

/// Runs `words` in a shell after `preparation`.
#[track_caller]
fn run_after(database: &Database, preparation: &str, words: &[&str]) -> Outcome {
    let script = format!(r#"{preparation}; exec "$@""#);
    Dlock::of(Path::new("bash"), ["-c", &script, "bash"])
        .args(words)
        .env("DLOCK_URL", database.url())
        .run()
}

/// Returns the messages of all runs that failed. Each message must contain `cause`.
#[track_caller]
fn failures(outcomes: impl IntoIterator<Item = Outcome>, cause: &str) -> String {
    let failed = outcomes
        .into_iter()
        .filter(|outcome| outcome.status != Some(0));
    let messages = failed.map(|outcome| {
        let last = outcome.stderr.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("dlock: ") && last.contains(cause),
            "{outcome:?}"
        );
        outcome.stderr
    });
    messages.collect()
}

#[test]
fn each_limit_of_descriptors_that_ends_a_run_is_named() {
    let database = database();
    let limits = 4..20;
    let outcomes = limits.map(|limit| run_after(&database, &format!("ulimit -n {limit}"), &RUN));
    let messages = failures(outcomes, "Too many open files");
    assert!(messages.contains("the monitor failed"), "{messages}");
}

#[test]
fn each_limit_of_processes_that_ends_a_run_is_named() {
    let database = database();
    // A limit does not apply to root, and counts all processes of the user. No other process has these users.
    let user = 1_000_000_000 + std::process::id();
    let outcomes = (1..8).map(|limit| {
        let (user, limit) = (user + limit, format!("--nproc={limit}"));
        let user = format!("--reuid={user}");
        let words = ["setpriv", &user, "--clear-groups", "prlimit", &limit];
        run_after(&database, ":", &[&words[..], &RUN].concat())
    });
    let messages = failures(outcomes, "Resource temporarily unavailable");
    assert!(messages.contains("cannot start a thread"), "{messages}");
}

#[test]
fn each_limit_of_memory_that_prevents_a_thread_is_named() {
    const STEP: usize = 1024;
    let database = database();
    let run =
        |limit, words: &[&str]| run_after(&database, &format!("ulimit -c 0 -v {limit}"), words);
    // Below this limit, the kernel or the C library ends every program.
    let is_enough = |limit: &usize| run(*limit, &[RUN[0], "version"]).status == Some(0);
    let least = (8192..).step_by(STEP).find(is_enough).expect("dlock runs");
    let outcomes = (least..).step_by(STEP).map(|limit| run(limit, &RUN));
    let outcomes = outcomes.take_while(|outcome| outcome.status != Some(0));
    let without_thread = outcomes.filter(|outcome| outcome.status == Some(70));
    let messages = failures(without_thread, "Resource temporarily unavailable");
    assert!(messages.contains("cannot start a thread"), "{messages}");
}

#[test]
fn closed_streams_and_an_empty_dev_prevent_neither_a_run_nor_a_hook() {
    let database = database();
    for closed in ["", "<&-", ">&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"] {
        let script = format!(r#"mount -t tmpfs tmpfs /dev; exec "$@" {closed}"#);
        let hook = r#"read line; echo "hook $DLOCK_EVENT [$line]""#;
        let outcome = Dlock::of(Path::new("unshare"), ["--mount", "sh", "-c", &script])
            .args(["sh", RUN[0], "exec", "-a", "init", "--on-event", hook])
            .args(["--", "sh", "-c", "exit 7"])
            .env("DLOCK_URL", database.url())
            .run();
        let hooks = match closed.contains("2>&-") {
            true => "",
            false => "hook granted []\nhook released []\n",
        };
        assert_eq!(outcome.status, Some(7), "{closed}: {outcome:?}");
        assert_eq!(outcome.stderr, hooks, "{closed}");
    }
}

#[test]
fn hook_without_a_shell_is_reported_with_the_cause() {
    Dlock::on(&database(), ["exec", "-a", "init", "--on-event", ":", "--"])
        .arg("/bin/true")
        .env("PATH", "/nonexistent")
        .expect(0, "", "PATH contains no sh");
}

#[test]
fn program_that_the_kernel_cannot_execute_is_reported_and_releases_the_lock() {
    // Only the exec system call detects these errors.
    let database = database();
    let stage = Stage::new();
    let binary = fs::read("/bin/true").expect("the program exists");
    let loader = binary
        .windows(6)
        .position(|bytes| bytes == b"/lib64" || bytes == b"/lib/l");
    let mut other = binary.clone();
    other[loader.expect("the program is linked dynamically") + 1] = b'X';
    let missing = "its interpreter /no/such/sh does not exist";
    let dos = "its first line ends with a carriage return (CR), which the kernel adds to the name of the interpreter /bin/sh;";
    for (name, program, status, why) in [
        ("script", &b"#! /no/such/sh -e\n"[..], 127, missing),
        ("without-end", b"#!/no/such/sh", 127, missing),
        ("dos", b"#!/bin/sh\r\nexit 0\r\n", 127, dos),
        ("binary", &other, 127, "its interpreter /Xib"),
        ("forbidden", b"#!/etc/passwd\n", 126, ""),
    ] {
        let path = stage.write(name, 0o755, program);
        let path = path.to_str().expect("the path is text");
        // A run that finds the lock held does not wait.
        let outcome = Dlock::on(&database, ["exec", "-n", "-a", "init", "--", path]).run();
        outcome.expect(status, "", &format!("cannot run {path}: {why}"));
    }
    Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "true"]).expect(0, "", "");
}
