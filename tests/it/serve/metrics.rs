//! Tests of `/metrics`, the alert rules and the dashboard, with `promtool`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use openmetrics_parser::prometheus::parse_prometheus;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::servers::{Flavour, fetched};

use super::{Page, database};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/prometheus");

/// Asserts that `promtool`, with these arguments, accepts `input` and prints nothing on stderr.
#[track_caller]
fn promtool(arguments: &[&str], input: Stdio) {
    let output = Command::new(fetched("promtool"))
        .args(arguments)
        .current_dir(EXAMPLES)
        .stdin(input)
        .output()
        .expect("promtool starts");
    let is_silent = output.stderr.is_empty();
    assert!(output.status.success() && is_silent, "{output:#?}");
}

#[test]
fn metrics_are_valid_and_documented_and_alerts_and_dashboard_use_only_them() {
    let database = database(Flavour::of_this_test());
    let stage = Stage::new();
    let (written, served) = (stage.path("written.prom"), stage.path("served.prom"));
    for (script, status) in [("exit 0", 0), ("exit 4", 4)] {
        let exec = ["exec", "-a", "a\"b\\c{}", "--metrics-file"];
        let exec = Dlock::on(&database, exec).arg(&written);
        exec.args(["--", "sh", "-c", script]).expect(status, "", "");
    }
    let _holder = Holder::on(&database, &[]);
    let page = Page::on(&database, &[]);
    let response = page.get("/metrics");
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(response.headers["content-type"], kind);
    fs::write(&served, &response.body).expect("the file is written");
    let input = fs::File::open(served).expect("the file exists");
    promtool(&["check", "metrics"], input.into());
    let metrics = parse_prometheus(&response.body).expect("the metrics are valid");
    let value = |name: &str, action: &str| {
        let mut samples = metrics.families[name].iter_samples();
        let sample = samples.find(|sample| {
            let labels = sample.get_labelset().expect("labels");
            labels.get_label_value("action") == Some(action)
        });
        sample.map(|sample| format!("{:?}", sample.value))
    };
    let held = value("dlock_action_held", "init").expect("a sample");
    assert!(held.contains('1'), "{held}");
    assert_eq!(value("dlock_action_held_seconds", "a\"b\\c{}"), None);
    let success = value("dlock_action_last_run_success", "a\"b\\c{}").expect("a sample");
    assert!(success.contains('0'), "{success}");

    let names = |text: &str, start: &str, end: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(start));
        lines
            .filter_map(|line| Some(line.split_once(end)?.0.to_owned()))
            .collect()
    };
    let man = concat!(env!("CARGO_MANIFEST_DIR"), "/man/dlock-serve.1");
    let man = fs::read_to_string(man).expect("the page exists");
    let documented = names(&man, "\\fBdlock_", "\\fR");
    assert_eq!(names(&response.body, "# TYPE dlock_", " "), documented);
    let metrics = response.body + &fs::read_to_string(written).expect("the file exists");
    for file in ["dlock.rules.yml", "grafana-dashboard.json"] {
        let text = fs::read_to_string(Path::new(EXAMPLES).join(file)).expect("the file exists");
        let starts = text.match_indices("dlock_").map(|(at, _)| at);
        let is_part = |char: char| char.is_ascii_lowercase() || char == '_';
        let used: Vec<&str> = starts
            .filter_map(|at| text[at..].split(|char| !is_part(char)).next())
            .collect();
        assert!(used.len() > 3, "{file}");
        for name in used {
            let is_known = metrics.contains(&format!("# TYPE {name} "));
            assert!(is_known, "{name} in {file}");
        }
    }
}

#[test]
fn alert_rules_fire_and_stay_silent_as_their_tests_say() {
    promtool(&["check", "rules", "dlock.rules.yml"], Stdio::null());
    promtool(&["test", "rules", "dlock.rules.test.yml"], Stdio::null());
    promtool(&["check", "config", "prometheus.yml"], Stdio::null());
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
    let mut rules = Vec::new();
    for panel in panels {
        let has_texts = panel["type"].is_string() && panel["title"].is_string();
        assert!(has_texts, "{panel:#}");
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(place("x") + place("w") <= 24, "{panel:#}");
        for target in panel["targets"].as_array().expect("a list") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel:#}");
            let expression = target["expr"].as_str().expect("an expression");
            let expression = expression
                .replace("$action", ".*")
                .replace("$__rate_interval", "5m");
            let name = format!("rule_{}", rules.len());
            rules.push(serde_json::json!({"record": name, "expr": expression}));
        }
    }
    // Only a rule file can be checked.
    let stage = Stage::new();
    let file = stage.path("rules.yml");
    let rules = serde_json::json!({"groups": [{"name": "g", "rules": rules}]});
    fs::write(&file, rules.to_string()).expect("the file is written");
    let file = file.to_str().expect("the path is UTF-8");
    promtool(&["check", "rules", file], Stdio::null());
}
