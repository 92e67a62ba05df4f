//! The file of metrics: what it says at each step, judged by a strict parser of Prometheus' format, and
//! that no trouble with it touches a run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use openmetrics_parser::prometheus::parse_prometheus;
use openmetrics_parser::{MetricNumber, PrometheusType, PrometheusValue};

use crate::command::{Stage, tell};
use crate::compiler::preload;
use crate::dlock::{Dlock, eventually};
use crate::holder::{Holder, is_free, renewals, steal, token};
use crate::proxy::{Fault, Kind, Proxy};
use crate::servers::{Flavour, shared};

/// A folder for a collector, with nothing in it but what dlock writes.
struct Folder {
    stage: Stage,
}

impl Folder {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("metrics")).expect("the folder is writable");
        Self { stage }
    }

    fn file(&self) -> PathBuf {
        self.stage.path("metrics").join("dlock.prom")
    }

    /// The option that names the file.
    fn option(&self) -> String {
        format!("--metrics-file={}", self.file().display())
    }

    /// All that is in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.stage.path("metrics")).expect("it is there");
        let name =
            |entry: std::io::Result<fs::DirEntry>| entry.expect("it can be read").file_name();
        entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect()
    }

    /// The value of `name` for `init`, none if there is no such metric.
    #[track_caller]
    fn value(&self, name: &str) -> Option<f64> {
        value(&self.file(), name, "init", None)
    }

    /// Which of the results is the one.
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
            value.expect("each result is there") > 0.5
        };
        results.into_iter().filter(is).collect()
    }
}

/// The value of a metric of `action` in `file`, which must be sound as a whole.
#[track_caller]
fn value(file: &Path, name: &str, action: &str, result: Option<&str>) -> Option<f64> {
    let text = fs::read_to_string(file).expect("the file is there");
    let page = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    let family = page.families.get(name)?;
    assert!(!family.help.is_empty(), "{name} has no help in {text}");
    let is_counter = family.family_type == PrometheusType::Counter;
    assert_eq!(is_counter, name.ends_with("_total"), "{name} in {text}");
    let sample = family.iter_samples().find(|sample| {
        let labels = sample.get_labelset().expect("it has labels");
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

/// Tokens are microseconds since 1970, which a double holds exactly.
#[expect(clippy::cast_precision_loss, reason = "below 2^53 for some 250 years")]
fn as_number(token: u64) -> f64 {
    token as f64
}

#[test]
fn a_run_is_told_from_its_grant_through_each_renewal_to_its_end() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        let holder = Holder::on(&database, &["--ttl=4s", &folder.option()]);
        eventually("the grant is told", || folder.file().exists());
        assert_eq!(folder.value("dlock_held"), Some(1.0), "{flavour}");
        let wanted = as_number(token(&database));
        assert_eq!(folder.value("dlock_token"), Some(wanted), "{flavour}");
        assert_eq!(folder.value("dlock_result"), None, "{flavour}");
        eventually("renewals are told", || {
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
}

#[test]
fn what_comes_of_a_run_is_one_of_the_results() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        let run = |options: &[&str], command: &[&str]| {
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
}

#[test]
fn a_renewal_that_fails_is_counted() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        let proxy = Proxy::to(database.port);
        let dlock = Dlock::new(["exec"]).env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start(dlock, &["--ttl=6s", &folder.option()]);
        let case = proxy.next(Kind::Renew, Fault::Reset);
        case.wait();
        eventually("the failure is told", || {
            folder.value("dlock_renewal_failures_total") >= Some(1.0)
        });
        assert_eq!(folder.value("dlock_held"), Some(1.0), "{flavour}");
        holder.running.heard("is renewed again");
        holder.end();
    }
}

#[test]
fn an_action_cannot_forge_a_metric() {
    const ACTION: &str = "a\"} 1 # \\n{b=\"c\", é\u{202e}\\";
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        let exec = ["exec", "-a", ACTION, &folder.option(), "--", "true"];
        Dlock::on(&database, exec).run().expect(0, "", "");
        let held = value(&folder.file(), "dlock_held", ACTION, None);
        assert_eq!(held, Some(0.0), "{flavour}");
    }
}

#[test]
fn a_collector_that_is_another_user_can_read_it_whatever_the_umask() {
    for flavour in Flavour::ALL {
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
            .expect("it is there")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o644, "{flavour}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_once_and_changes_nothing() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let stage = Stage::new();
        let missing = stage.path("no/such/folder");
        let missing = format!("--metrics-file={}", missing.display());
        let holder = Holder::on(&database, &["--ttl=4s", &missing]);
        eventually("renewals", || renewals(&database) > 2);
        let outcome = holder.end();
        let told = "dlock: cannot write the metrics: No such file or directory (os error 2)\n";
        assert_eq!(outcome.status, Some(3), "{flavour}: {outcome:#?}");
        assert_eq!(outcome.stderr.matches(told).count(), 1, "{outcome:#?}");
    }
    for wrong in ["", "/", ".."] {
        let outcome = Dlock::new(["exec", "-a", "init", "--metrics-file", wrong]);
        outcome
            .args(["--", "true"])
            .run()
            .expect(64, "", "--metrics-file");
    }
}

/// Whoever renames a file waits until `FIFO` is read from, as on a dead network disk.
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
fn a_disk_that_hangs_holds_up_neither_the_command_nor_a_renewal_nor_the_release() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        let library = preload(&folder.stage, HANGING);
        let fifo = folder.stage.fifo("hang");
        let dlock = Dlock::on(&database, ["exec"])
            .env("LD_PRELOAD", library)
            .env("FIFO", &fifo);
        // Its command runs although nobody reads the fifo.
        let mut holder = Holder::start(dlock, &["--ttl=4s", &folder.option()]);
        eventually("it hangs in the middle", || folder.names().len() == 1);
        assert_ne!(folder.names(), ["dlock.prom"], "{flavour}");
        let before = renewals(&database);
        eventually("renewals go on", || renewals(&database) > before + 2);
        assert!(!holder.running.is_over(), "{flavour}");
        tell(&holder.go(), "on");
        eventually("the lease is given up", || is_free(&database));
        // And dlock waits for the disk no longer than it says.
        assert_eq!(holder.running.wait().status, Some(3), "{flavour}");
    }
}

#[test]
fn what_stands_in_the_way_of_the_file_is_left_alone() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("metrics");
        let folder = Folder::new();
        // What stands in the file's place and is no file.
        fs::create_dir(folder.file()).expect("the folder is writable");
        fs::write(folder.file().join("kept"), "").expect("the folder is writable");
        let exec = ["exec", "-a", "init", &folder.option(), "--", "true"];
        let outcome = Dlock::on(&database, exec).run();
        outcome.expect(0, "", "dlock: cannot write the metrics: ");
        assert_eq!(folder.names(), ["dlock.prom"], "{flavour}");
        assert!(folder.file().join("kept").exists(), "{flavour}");
    }
}
