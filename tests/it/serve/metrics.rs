//! Tests of `/metrics`, the alert rules and the dashboard, with `promtool`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use openmetrics_parser::prometheus::parse_prometheus;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::servers::{Flavour, fetched, shared};

use super::Page;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/prometheus");

fn promtool() -> Command {
    Command::new(fetched("promtool"))
}

#[test]
fn promtool_accepts_the_metrics() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("serve");
    let outcome = Dlock::on(
        &database,
        ["exec", "-a", "a\"b\\c{}", "--", "sh", "-c", "exit 4"],
    )
    .run();
    assert_eq!(outcome.status, Some(4), "{outcome:#?}");
    let holder = Holder::on(&database, &[]);
    let page = Page::on(&database, &[]);
    let response = page.get("/metrics");
    assert_eq!(
        response.headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let mut child = promtool()
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(response.body.as_bytes())
        .expect("the metrics are written");
    drop(stdin);
    let output = child.wait_with_output().expect("promtool ends");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.is_empty(),
        "{flavour}: {printed}"
    );
    let metrics = parse_prometheus(&response.body).expect("the metrics are valid");
    let value = |name: &str, action: &str| {
        let samples = metrics.families[name].iter_samples();
        let mut samples = samples.filter(|sample| {
            let labels = sample.get_labelset().expect("labels");
            labels.get_label_value("action") == Some(action)
        });
        samples.next().map(|sample| format!("{:?}", sample.value))
    };
    let held = value("dlock_action_held", "init").expect("a sample");
    assert!(held.contains('1'), "{held}");
    assert_eq!(value("dlock_action_held_seconds", "a\"b\\c{}"), None);
    let success = value("dlock_action_last_run_success", "a\"b\\c{}").expect("a sample");
    assert!(success.contains('0'), "{success}");
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn every_metric_is_documented() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/dlock-serve.1"))
        .expect("the page exists");
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &[]);
    let server = Page::on(&database, &[]);
    let metrics = server.get("/metrics").body;
    let names: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let documented: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("\\fBdlock_"))
        .filter_map(|line| line.split("\\fR").next())
        .collect();
    let names: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("dlock_"))
        .collect();
    assert_eq!(names, documented);
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(server.end().status, Some(0));
}

#[test]
fn alert_rules_fire_and_stay_silent_as_their_tests_say() {
    let run = |arguments: &[&str], file: &Path| {
        let output = promtool()
            .args(arguments)
            .arg(file)
            .current_dir(EXAMPLES)
            .output()
            .expect("promtool starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    };
    run(&["check", "rules"], Path::new("dlock.rules.yml"));
    run(&["test", "rules"], Path::new("dlock.rules.test.yml"));
    run(&["check", "config"], Path::new("prometheus.yml"));
}

#[test]
fn alerts_and_dashboard_use_only_metrics_that_exist() {
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &[]);
    let server = Page::on(&database, &[]);
    let stage = Stage::new();
    let file = stage.path("report.prom");
    let exec = Dlock::on(&database, ["exec", "report", "--metrics-file"]);
    exec.arg(&file).args(["--", "true"]).run().expect(0, "", "");
    let file = fs::read_to_string(&file).expect("the file exists");
    let metrics = server.get("/metrics").body + &file;
    let files = ["dlock.rules.yml", "grafana-dashboard.json"];
    for path in files.map(|file| PathBuf::from(EXAMPLES).join(file)) {
        let text = fs::read_to_string(&path).expect("the file exists");
        let mut count = 0;
        for (at, _) in text.match_indices("dlock_") {
            let name: String = text[at..]
                .chars()
                .take_while(|char| char.is_ascii_lowercase() || *char == '_')
                .collect();
            count += 1;
            assert!(
                metrics.contains(&format!("# TYPE {name} ")),
                "{name} in {}",
                path.display()
            );
        }
        assert!(count > 3, "{}", path.display());
    }
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(server.end().status, Some(0));
}

#[test]
fn dashboard_has_the_form_that_grafana_imports() {
    let text =
        fs::read_to_string(format!("{EXAMPLES}/grafana-dashboard.json")).expect("the file exists");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].as_u64() >= Some(36));
    assert!(dashboard["id"].is_null(), "Grafana assigns the id");
    let panels = dashboard["panels"].as_array().expect("a list");
    let mut ids: Vec<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().expect("an id"))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "the ids are different");
    for panel in panels {
        assert!(
            panel["type"].is_string() && panel["title"].is_string(),
            "{panel:#}"
        );
        let place = &panel["gridPos"];
        let right = place["x"]
            .as_u64()
            .zip(place["w"].as_u64())
            .map(|(x, w)| x + w);
        assert!(right.is_some_and(|right| right <= 24), "{panel:#}");
        for target in panel["targets"].as_array().expect("a list") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel:#}");
            let expression = target["expr"].as_str().expect("an expression");
            // Only a rule file can be checked.
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("rule.yml");
            let variable = expression
                .replace("$action", ".*")
                .replace("$__rate_interval", "5m");
            let rule = serde_json::json!({"groups": [{"name": "g", "rules": [{"record": "r", "expr": variable}]}]});
            fs::write(&file, rule.to_string()).expect("the file is written");
            let output = promtool()
                .args(["check", "rules"])
                .arg(&file)
                .output()
                .expect("promtool starts");
            assert!(
                output.status.success(),
                "{expression}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
