//! Tests of the metrics file. A strict parser of the Prometheus format checks the file's contents at each step of a
//! run. A failure to write the file must not affect the run. Unit tests check hostile names of actions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use openmetrics_parser::prometheus::parse_prometheus;
use openmetrics_parser::{MetricNumber, PrometheusType, PrometheusValue};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, write_message};
use testkit::compiler::preload;
use testkit::holder::{Holder, is_free, renewals, steal, token};
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{Flavour, shared};

/// A folder that a metrics collector reads. The folder contains only files that dlock writes.
struct Folder(Stage);

impl Folder {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("metrics")).expect("the folder is writable");
        Self(stage)
    }

    fn file(&self) -> PathBuf {
        self.0.path("metrics").join("dlock.prom")
    }

    fn option(&self) -> String {
        format!("--metrics-file={}", self.file().display())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path("metrics")).expect("the folder exists");
        let names = entries.map(|entry| entry.expect("the entry can be read").file_name());
        let text = names.map(|name| name.to_string_lossy().into_owned());
        text.collect()
    }

    /// Returns the value of the metric `name` for the action `init`. None if the file does not contain the metric.
    #[track_caller]
    fn value(&self, name: &str) -> Option<f64> {
        self.samples(name, "init").first().map(|(_, value)| *value)
    }

    /// Returns the results for which the value of `dlock_result` is 1.
    #[track_caller]
    fn result(&self) -> Vec<String> {
        let results = self.samples("dlock_result", "init");
        assert_eq!(results.len(), 8, "{results:?}");
        let results = results.into_iter().filter(|(_, value)| *value > 0.5);
        results.map(|(result, _)| result).collect()
    }

    /// Returns the results and values of the samples of the metric `name`, which all belong to `action`. Panics if the
    /// file is not valid.
    #[track_caller]
    fn samples(&self, name: &str, action: &str) -> Vec<(String, f64)> {
        let text = fs::read_to_string(self.file()).expect("the file exists");
        let page = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        let Some(family) = page.families.get(name) else {
            return Vec::new();
        };
        assert!(!family.help.is_empty(), "{name} has no help in {text}");
        let is_counter = family.family_type == PrometheusType::Counter;
        assert_eq!(is_counter, name.ends_with("_total"), "{name} in {text}");
        let samples = family.iter_samples().map(|sample| {
            let labels = sample.get_labelset().expect("the sample has labels");
            assert_eq!(labels.get_label_value("action"), Some(action), "{text}");
            let result = labels.get_label_value("result").unwrap_or_default();
            let number: MetricNumber = match sample.value.clone() {
                PrometheusValue::Gauge(number) => number,
                PrometheusValue::Counter(counter) => counter.value,
                other => panic!("{name} is {other:?}"),
            };
            (result.to_owned(), number.as_f64())
        });
        samples.collect()
    }
}

#[test]
fn metrics_are_written_at_grant_renewals_and_end_for_all_users() {
    let database = shared(Flavour::of_this_test()).database("metrics");
    let folder = Folder::new();
    let proxy = Proxy::to(database.port);
    // Other users can read the file with any umask.
    let script = r#"umask 077; exec "$@""#;
    let dlock = Dlock::of(Path::new("/bin/sh"), ["-c", script, "sh"])
        .args([env!("CARGO_BIN_EXE_dlock"), "exec"])
        .env("DLOCK_URL", database.url_through(proxy.port()));
    let holder = Holder::start(dlock, &["--ttl=6s", &folder.option()]);
    eventually("the grant is written", || folder.file().exists());
    assert_eq!(folder.value("dlock_held"), Some(1.0));
    let text = fs::read_to_string(folder.file()).expect("the file exists");
    let wanted = format!("\ndlock_token{{action=\"init\"}} {}\n", token(&database));
    assert!(text.contains(&wanted), "{text}");
    assert_eq!(folder.value("dlock_result"), None);
    let renewals = || folder.value("dlock_renewals_total");
    eventually("renewals are written", || renewals() > Some(1.0));
    assert!(folder.value("dlock_hold_seconds") > Some(0.3));
    proxy.next(Kind::Renew, Fault::Reset).wait();
    let failures = || folder.value("dlock_renewal_failures_total");
    eventually("the failure is written", || failures() >= Some(1.0));
    assert_eq!(folder.value("dlock_held"), Some(1.0));
    holder.running.wait_for_output("is renewed again");
    assert_eq!(holder.end().status, Some(3));
    for (name, value) in [("held", 0.0), ("skipped", 0.0), ("exit_status", 3.0)] {
        assert_eq!(folder.value(&format!("dlock_{name}")), Some(value));
    }
    assert!(failures() >= Some(1.0));
    assert_eq!(folder.result(), ["failed"]);
    let end = folder.value("dlock_end_timestamp_seconds");
    assert!(end > Some(1.7e9), "{end:?}");
    assert!(folder.value("dlock_wait_seconds") > Some(0.0));
    assert_eq!(folder.names(), ["dlock.prom"]);
    let file = fs::metadata(folder.file()).expect("the file exists");
    assert_eq!(file.permissions().mode() & 0o777, 0o644);
}

#[test]
fn each_outcome_sets_its_result_metric() {
    let database = shared(Flavour::of_this_test()).database("metrics");
    let folder = Folder::new();
    let run = |options: &[&str], command: &[&str], status: i32, result: &str| {
        // The file of an earlier run would keep the metrics of that run.
        let _ = fs::remove_file(folder.file());
        let outcome = Dlock::on(&database, ["exec", "-q", "-a", "init"])
            .env("DLOCK_OPT_METRICS_FILE", folder.file())
            .args(options)
            .arg("--")
            .args(command)
            .run();
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
        assert_eq!(folder.result(), [result]);
    };
    run(&["--once"], &["true"], 0, "succeeded");
    run(&["--once"], &["true"], 0, "done");
    assert_eq!(folder.value("dlock_skipped"), Some(1.0));
    assert_eq!(folder.value("dlock_token"), None);
    let cat = ["cat", "/dev/zero"];
    run(&["--max-runtime=100ms"], &cat, 124, "timed-out");
    run(&["--user=nobody"], &["true"], 77, "error");

    let lost = Folder::new();
    let holder = Holder::on(&database, &["--ttl=6s", &lost.option()]);
    run(&["-w", "100ms", "-E0"], &["true"], 0, "held");
    assert_eq!(folder.value("dlock_skipped"), Some(1.0));
    assert!(folder.value("dlock_wait_seconds") > Some(0.09));
    assert_eq!(folder.value("dlock_hold_seconds"), Some(0.0));
    steal(&database);
    assert_eq!(holder.running.wait().status, Some(76));
    assert_eq!(lost.result(), ["lost"]);
    assert_eq!(lost.value("dlock_held"), Some(0.0));
}

#[test]
fn a_skipped_run_keeps_the_metrics_of_the_last_run_and_each_run_the_time_of_the_last_success() {
    let database = shared(Flavour::of_this_test()).database("metrics");
    let folder = Folder::new();
    let option = folder.option();
    let run = |options: &[&str], command: &str, status: i32| {
        let outcome = Dlock::on(&database, ["exec", "-q", &option])
            .args(options)
            .args(["--", "sh", "-c", command])
            .run();
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
    };
    let init = ["-a", "init"];
    let success = || folder.value("dlock_success_timestamp_seconds");
    run(&init, "exit 1", 1);
    assert_eq!(success(), None);
    run(&["-a", "init", "--once"], "exit 0", 0);
    let at = success();
    assert_eq!(at, folder.value("dlock_end_timestamp_seconds"));
    run(&init, "exit 1", 1);
    assert_eq!(success(), at);
    let text = || fs::read_to_string(folder.file()).expect("the file exists");
    let last = text();
    run(&["-a", "init", "--once"], "exit 0", 0);
    assert_eq!(text(), last, "done");
    let _holder = Holder::on(&database, &[]);
    run(&["-a", "init", "-n"], "exit 0", 75);
    assert_eq!(text(), last, "held");
    // The file of another lock is replaced.
    run(&["-a", "other"], "exit 0", 0);
    let skipped = folder.samples("dlock_skipped", "other");
    assert_eq!(skipped, [(String::new(), 0.0)]);
}

#[test]
fn unwritable_metrics_file_is_reported_once_and_run_is_not_affected() {
    let database = shared(Flavour::of_this_test()).database("metrics");
    let folder = Folder::new();
    let missing = folder.0.path("no/such/folder");
    let option = format!("--metrics-file={}", missing.display());
    let holder = Holder::on(&database, &["--ttl=6s", &option]);
    eventually("more than two renewals", || renewals(&database) > 2);
    let outcome = holder.end();
    let path = missing.display();
    let why = "No such file or directory (os error 2)";
    let message = format!("dlock: cannot write the metrics to {path}: {why}\n");
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert_eq!(outcome.stderr.matches(&message).count(), 1, "{outcome:#?}");
    // A folder at the path is not replaced.
    fs::create_dir(folder.file()).expect("the folder is writable");
    fs::write(folder.file().join("kept"), "").expect("the folder is writable");
    let exec = ["exec", "-a", "init", &folder.option(), "--", "true"];
    Dlock::on(&database, exec).expect(0, "", "dlock: cannot write the metrics to ");
    assert_eq!(folder.names(), ["dlock.prom"]);
    assert!(folder.file().join("kept").exists());
}

/// C source of a `rename` that blocks until a process reads from the fifo `FIFO`, like a `rename` on a network disk
/// that does not respond.
const HANGING: &str = r#"
    #include <fcntl.h>
    #include <stdlib.h>
    #include <unistd.h>
    int rename(const char *from, const char *to) {
        int fd = open(getenv("FIFO"), O_WRONLY);
        write(fd, "hangs\n", 6);
        close(fd);
        return unlink(from);
    }
"#;

#[test]
fn hung_metrics_disk_delays_neither_command_nor_renewal_nor_release() {
    let database = shared(Flavour::of_this_test()).database("metrics");
    let folder = Folder::new();
    let library = preload(&folder.0, HANGING);
    let fifo = folder.0.fifo("hang");
    let dlock = Dlock::on(&database, ["exec"])
        .env("LD_PRELOAD", library)
        .env("FIFO", &fifo);
    // The command runs although no process reads the fifo.
    let mut holder = Holder::start(dlock, &["--ttl=6s", &folder.option()]);
    eventually("the rename hangs", || folder.names().len() == 1);
    assert_ne!(folder.names(), ["dlock.prom"]);
    let before = renewals(&database);
    eventually("renewals continue", || renewals(&database) > before + 2);
    assert!(!holder.running.is_over());
    write_message(&holder.go(), "on");
    eventually("the lease is released", || is_free(&database));
    // dlock exits although the rename still hangs.
    assert_eq!(holder.running.wait().status, Some(3));
}
