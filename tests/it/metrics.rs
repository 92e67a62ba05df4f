//! Tests of the metrics file. A strict parser of the Prometheus format checks the file's contents at each step of a
//! run. A failure to write the file must not affect the run.

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
struct Folder {
    stage: Stage,
}

impl Folder {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("metrics")).expect("the folder is writable");
        Self { stage }
    }

    /// Returns the path of the metrics file.
    fn file(&self) -> PathBuf {
        self.stage.path("metrics").join("dlock.prom")
    }

    /// Returns the option with the path of the metrics file.
    fn option(&self) -> String {
        format!("--metrics-file={}", self.file().display())
    }

    /// Returns the names of all files in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.stage.path("metrics")).expect("the folder exists");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("the entry can be read").file_name()
        };
        entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the value of the metric `name` for the action `init`. None if the file does not contain the metric.
    #[track_caller]
    fn value(&self, name: &str) -> Option<f64> {
        value(&self.file(), name, "init", None)
    }

    /// Returns the results for which the value of `dlock_result` is 1.
    #[track_caller]
    fn result(&self) -> Vec<&'static str> {
        let results = [
            "succeeded",
            "failed",
            "timed-out",
            "lost",
            "done",
            "held",
            "interrupted",
            "error",
        ];
        let is = |result: &&str| {
            let value = value(&self.file(), "dlock_result", "init", Some(result));
            value.expect("the file contains each result") > 0.5
        };
        results.into_iter().filter(is).collect()
    }
}

/// Returns the value of the metric `name` for `action` in `file`. None if the file does not contain the metric. Panics
/// if the file is not valid.
#[track_caller]
fn value(file: &Path, name: &str, action: &str, result: Option<&str>) -> Option<f64> {
    let text = fs::read_to_string(file).expect("the file exists");
    let page = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    let family = page.families.get(name)?;
    assert!(!family.help.is_empty(), "{name} has no help in {text}");
    let is_counter = family.family_type == PrometheusType::Counter;
    assert_eq!(is_counter, name.ends_with("_total"), "{name} in {text}");
    let sample = family.iter_samples().find(|sample| {
        let labels = sample.get_labelset().expect("the sample has labels");
        assert_eq!(labels.get_label_value("action"), Some(action), "{text}");
        labels.get_label_value("result") == result
    });
    let number: MetricNumber = match sample?.value.clone() {
        PrometheusValue::Gauge(number) => number,
        PrometheusValue::Counter(counter) => counter.value,
        other => panic!("{name} is {other:?}"),
    };
    Some(number.as_f64())
}

/// Converts a token to a metric value. A token is a number of microseconds since 1970, which a double represents
/// exactly.
#[expect(
    clippy::cast_precision_loss,
    reason = "tokens are below 2^53 for about 250 years"
)]
fn as_number(token: u64) -> f64 {
    token as f64
}

#[test]
fn metrics_are_written_at_grant_renewals_and_end() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let holder = Holder::on(&database, &["--ttl=4s", &folder.option()]);
    eventually("the grant is written", || folder.file().exists());
    assert_eq!(folder.value("dlock_held"), Some(1.0), "{flavour}");
    let wanted = as_number(token(&database));
    assert_eq!(folder.value("dlock_token"), Some(wanted), "{flavour}");
    assert_eq!(folder.value("dlock_result"), None, "{flavour}");
    eventually("renewals are written", || {
        folder.value("dlock_renewals_total") > Some(1.0)
    });
    assert!(folder.value("dlock_hold_seconds") > Some(0.3), "{flavour}");
    assert_eq!(holder.end().status, Some(3), "{flavour}");
    assert_eq!(folder.value("dlock_held"), Some(0.0), "{flavour}");
    assert_eq!(folder.value("dlock_skipped"), Some(0.0), "{flavour}");
    assert_eq!(folder.value("dlock_exit_status"), Some(3.0), "{flavour}");
    assert!(folder.value("dlock_renewal_failures_total").is_some());
    assert_eq!(folder.result(), ["failed"], "{flavour}");
    let end = folder.value("dlock_end_timestamp_seconds");
    assert!(end > Some(1.7e9), "{flavour}: {end:?}");
    assert!(folder.value("dlock_wait_seconds") > Some(0.0), "{flavour}");
    assert_eq!(folder.names(), ["dlock.prom"], "{flavour}");
}

#[test]
fn each_outcome_sets_its_result_metric() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let run = |options: &[&str], command: &[&str]| {
        // The file of an earlier run would keep the metrics of that run.
        let _ = fs::remove_file(folder.file());
        Dlock::on(&database, ["exec", "-q", "-a", "init"])
            .env("DLOCK_OPT_METRICS_FILE", folder.file())
            .args(options)
            .arg("--")
            .args(command)
            .run()
            .status
    };
    assert_eq!(run(&["--once"], &["true"]), Some(0));
    assert_eq!(folder.result(), ["succeeded"], "{flavour}");

    assert_eq!(run(&["--once"], &["true"]), Some(0));
    assert_eq!(folder.result(), ["done"], "{flavour}");
    assert_eq!(folder.value("dlock_skipped"), Some(1.0), "{flavour}");
    assert_eq!(folder.value("dlock_token"), None, "{flavour}");

    let cat = ["cat", "/dev/zero"];
    assert_eq!(run(&["--max-runtime=100ms"], &cat), Some(124));
    assert_eq!(folder.result(), ["timed-out"], "{flavour}");

    let holder = Holder::on(&database, &[]);
    assert_eq!(run(&["-w", "100ms", "-E0"], &["true"]), Some(0));
    assert_eq!(folder.result(), ["held"], "{flavour}");
    assert_eq!(folder.value("dlock_skipped"), Some(1.0), "{flavour}");
    assert!(folder.value("dlock_wait_seconds") > Some(0.09), "{flavour}");
    assert_eq!(folder.value("dlock_hold_seconds"), Some(0.0), "{flavour}");
    holder.end();

    let holder = Holder::on(&database, &["--ttl=4s", &folder.option()]);
    steal(&database);
    assert_eq!(holder.running.wait().status, Some(76), "{flavour}");
    assert_eq!(folder.result(), ["lost"], "{flavour}");
    assert_eq!(folder.value("dlock_held"), Some(0.0), "{flavour}");

    assert_eq!(run(&["--user=nobody"], &["true"]), Some(77));
    assert_eq!(folder.result(), ["error"], "{flavour}");
}

#[test]
fn a_skipped_run_keeps_the_metrics_of_the_last_run_and_each_run_the_time_of_the_last_success() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let run = |options: &[&str], command: &str| {
        Dlock::on(&database, ["exec", "-q", "-a", "init"])
            .args([folder.option().as_str()])
            .args(options)
            .args(["--", "sh", "-c", command])
            .run()
            .status
    };
    let success = || folder.value("dlock_success_timestamp_seconds");
    assert_eq!(run(&[], "exit 1"), Some(1));
    assert_eq!(success(), None, "{flavour}");
    assert_eq!(run(&["--once"], "exit 0"), Some(0));
    let at = success();
    assert_eq!(at, folder.value("dlock_end_timestamp_seconds"), "{flavour}");
    assert_eq!(run(&[], "exit 1"), Some(1));
    assert_eq!(success(), at, "{flavour}");
    let text = || fs::read_to_string(folder.file()).expect("the file exists");
    let last = text();
    assert_eq!(run(&["--once"], "exit 0"), Some(0));
    assert_eq!(text(), last, "{flavour}: done");
    let holder = Holder::on(&database, &[]);
    assert_eq!(run(&["-n"], "exit 0"), Some(75));
    assert_eq!(text(), last, "{flavour}: held");
    holder.end();
    // The file of another lock is replaced.
    let other = Dlock::on(
        &database,
        ["exec", "-q", "other", &folder.option(), "--", "true"],
    );
    other.run().expect(0, "", "");
    let skipped = value(&folder.file(), "dlock_skipped", "other", None);
    assert_eq!(skipped, Some(0.0), "{flavour}");
}

#[test]
fn failed_renewals_are_counted() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let proxy = Proxy::to(database.port);
    let dlock = Dlock::new(["exec"]).env("DLOCK_URL", database.url_through(proxy.port()));
    let holder = Holder::start(dlock, &["--ttl=6s", &folder.option()]);
    let case = proxy.next(Kind::Renew, Fault::Reset);
    case.wait();
    eventually("the failure is written", || {
        folder.value("dlock_renewal_failures_total") >= Some(1.0)
    });
    assert_eq!(folder.value("dlock_held"), Some(1.0), "{flavour}");
    holder.running.wait_for_output("is renewed again");
    holder.end();
}

#[test]
fn action_name_cannot_forge_a_metric() {
    const ACTION: &str = "a\"} 1 # \\n{b=\"c\", é\u{202e}\\";
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let exec = ["exec", "-a", ACTION, &folder.option(), "--", "true"];
    Dlock::on(&database, exec).run().expect(0, "", "");
    let held = value(&folder.file(), "dlock_held", ACTION, None);
    assert_eq!(held, Some(0.0), "{flavour}");
}

#[test]
fn metrics_file_is_readable_by_other_users_with_any_umask() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let script = r#"umask 077; exec "$0" exec -a init "$1" -- true"#;
    Dlock::of(Path::new("/bin/sh"), ["-c", script])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .arg(folder.option())
        .env("DLOCK_URL", database.url())
        .run()
        .expect(0, "", "");
    let mode = fs::metadata(folder.file())
        .expect("the file exists")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o644, "{flavour}");
}

#[test]
fn unwritable_metrics_file_is_reported_once_and_run_is_not_affected() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let stage = Stage::new();
    let missing = stage.path("no/such/folder");
    let option = format!("--metrics-file={}", missing.display());
    let holder = Holder::on(&database, &["--ttl=4s", &option]);
    eventually("more than two renewals", || renewals(&database) > 2);
    let outcome = holder.end();
    let message = format!(
        "dlock: cannot write the metrics to {}: No such file or directory (os error 2)\n",
        missing.display()
    );
    assert_eq!(outcome.status, Some(3), "{flavour}: {outcome:#?}");
    assert_eq!(outcome.stderr.matches(&message).count(), 1, "{outcome:#?}");
    for wrong in ["", "/", ".."] {
        let outcome = Dlock::new(["exec", "-a", "init", "--metrics-file", wrong]);
        outcome
            .args(["--", "true"])
            .run()
            .expect(64, "", "--metrics-file");
    }
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
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    let library = preload(&folder.stage, HANGING);
    let fifo = folder.stage.fifo("hang");
    let dlock = Dlock::on(&database, ["exec"])
        .env("LD_PRELOAD", library)
        .env("FIFO", &fifo);
    // The command runs although no process reads the fifo.
    let mut holder = Holder::start(dlock, &["--ttl=4s", &folder.option()]);
    eventually("the rename hangs", || folder.names().len() == 1);
    assert_ne!(folder.names(), ["dlock.prom"], "{flavour}");
    let before = renewals(&database);
    eventually("renewals continue", || renewals(&database) > before + 2);
    assert!(!holder.running.is_over(), "{flavour}");
    write_message(&holder.go(), "on");
    eventually("the lease is released", || is_free(&database));
    // dlock exits although the rename still hangs.
    assert_eq!(holder.running.wait().status, Some(3), "{flavour}");
}

#[test]
fn directory_at_the_metrics_path_is_not_replaced() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("metrics");
    let folder = Folder::new();
    // The path of the metrics file is a directory.
    fs::create_dir(folder.file()).expect("the folder is writable");
    fs::write(folder.file().join("kept"), "").expect("the folder is writable");
    let exec = ["exec", "-a", "init", &folder.option(), "--", "true"];
    let outcome = Dlock::on(&database, exec).run();
    outcome.expect(0, "", "dlock: cannot write the metrics to ");
    assert_eq!(folder.names(), ["dlock.prom"], "{flavour}");
    assert!(folder.file().join("kept").exists(), "{flavour}");
}
