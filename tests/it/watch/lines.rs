//! Tests of the output without a screen: blocks of text, or lines of JSON.

use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::proxy::{AcceptMode, Kind, Proxy};
use testkit::servers::Database;

use super::thirty_actions;

/// Runs `dlock status --watch` with `options`, pipes its output to a reader that exits after `count` lines, and returns
/// these lines. Asserts that dlock succeeds without a message.
#[track_caller]
fn head(database: &Database, options: &str, count: usize) -> String {
    let script =
        format!(r#"set -o pipefail; "$0" status --watch=100ms {options} | head -n {count}"#);
    let program = env!("CARGO_BIN_EXE_dlock");
    let outcome = Dlock::of(Path::new("bash"), ["-c", &script, program])
        .env("DLOCK_URL", database.url())
        .run();
    outcome.expect(0, &outcome.stdout, "");
    outcome.stdout
}

#[test]
fn pipe_gets_one_block_or_one_document_per_interval_until_it_closes() {
    let database = thirty_actions();
    let text = head(&database, "tenant-01 never", 10);
    let blocks: Vec<&str> = text.trim_end().split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    for block in blocks {
        let (time, table) = block.split_once('\n').expect("a time and a table");
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        // The first three words of a line do not change during a test.
        let first_words = |line: &str| {
            line.split_whitespace()
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let lines: Vec<String> = table.lines().map(first_words).collect();
        let tenant = "tenant-01 overdue web-1/4711";
        assert_eq!(lines, ["ACTION STATE HOLDER", tenant, "never unknown -"]);
        assert!(table.contains("DIAGNOSIS"), "{table}");
    }
    let json = head(&database, "--json", 3);
    assert_eq!(json.lines().count(), 3);
    for line in json.lines() {
        let document: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
        assert_eq!(document["locks"].as_array().map(Vec::len), Some(30));
    }
}

#[test]
fn watch_exits_on_a_signal_but_not_when_the_server_is_unavailable() {
    let database = thirty_actions();
    let proxy = Proxy::to(database.port);
    let watch = Dlock::typed(&database.through(proxy.port()), "status --watch=100ms").start();
    proxy.wait_asked(Kind::Get, 2);
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    watch.wait_for_output("cannot reach");
    proxy.door(AcceptMode::Open);
    proxy.wait_asked(Kind::Get, proxy.asked(Kind::Get) + 2);
    let outcome = watch.wait_after("TERM");
    assert_eq!(outcome.status, Some(143));
    // dlock reports each cause of an outage only once, even if several requests fail.
    let mut causes: Vec<&str> = outcome.stderr.lines().collect();
    causes.dedup();
    assert_eq!(causes.len(), outcome.stderr.lines().count(), "{outcome:#?}");
    assert!(!outcome.stdout.contains('\x1b'));
}

#[test]
fn invalid_watch_options_are_refused() {
    for (options, why) in [
        (&["--watch", "--check"][..], "--check"),
        (&["--watch=5"], "--watch"),
        (&["--watch=1ms"], "from 100ms to 24h"),
        (&["--watch=2d"], "from 100ms to 24h"),
        (&["--watch", "--color=blue"], "always"),
    ] {
        let status = Dlock::new(["status"]).args(options);
        let status = status.env("DLOCK_URL", "mysql://nobody@127.0.0.1:1/none");
        status.expect(64, "", why);
    }
}
