//! Twins that must fail: the same scenario with dlock, which must be clean, and with a dlock that
//! leaves one of its mechanisms out (`src/twin.rs`), which must be caught.
//!
//! - `program` is the twin, a program of its own; here is what sees to it that it is no older than
//!   what it is a twin of, and that dlock itself has nothing of it
//! - `scene` runs both of them and judges by real lives; `killing`, `replies` and `granting` are the
//!   scenarios

mod granting;
mod killing;
mod replies;
pub(crate) mod scene;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::dlock::{Dlock, Outcome};

/// How the twin is built, by `make test` and by whoever runs these tests alone.
const BUILD: &str = "cargo build --locked --features twins --bin dlock-twin";

/// The variable that says what the twin leaves out.
const VARIABLE: &str = "DLOCK_TWIN";

/// The twin's program, which lies beside dlock's own.
#[track_caller]
fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_dlock")).with_file_name("dlock-twin");
    up_to_date(&path, BUILD);
    path
}

/// Fails unless the program `path`, which `command` builds, is no older than the sources.
#[track_caller]
pub(crate) fn up_to_date(path: &Path, command: &str) {
    let built = changed(path).unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(
        built >= newest,
        "{} is missing or older than the sources: {command}",
        path.display()
    );
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// When the newest file below `folder` was written.
fn newest(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).expect("src can be read");
    let times = entries.map(|entry| {
        let path = entry.expect("src can be read").path();
        match path.is_dir() {
            true => newest(&path),
            false => changed(&path).expect("a source file is there"),
        }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

#[test]
fn dlock_itself_has_nothing_that_could_be_left_out() {
    let named_in = |path: &Path| {
        let grep = Command::new("grep")
            .args(["-q", "-a", "-F", VARIABLE])
            .arg(path)
            .status();
        grep.expect("grep runs").success()
    };
    assert!(named_in(&program()), "the search is blind");
    let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
    assert!(!named_in(dlock), "dlock knows {VARIABLE}");
    with_an_unknown_twin(dlock).expect(64, "", "ttl 1ms is too short");
}

#[test]
fn a_twin_that_would_leave_nothing_out_does_not_run() {
    with_an_unknown_twin(&program()).expect(101, "", "no mechanism is called nonsense");
}

/// A run that ends before it asks any server.
fn with_an_unknown_twin(program: &Path) -> Outcome {
    let arguments = ["exec", "-a", "init", "--ttl", "1ms", "--", "true"];
    Dlock::of(program, arguments)
        .env("DLOCK_URL", "mysql://nobody@localhost/nothing")
        .env(VARIABLE, "nonsense")
        .run()
}
