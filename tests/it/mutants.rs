//! Mutation tests. Each scenario runs with dlock, which must pass, and with a mutant, which must get the expected
//! verdict. A mutant is a build of dlock in which one or two safeguards are disabled (see `src/mutant.rs`).
//!
//! - `program` is the source of the mutant program. This file checks that the program is not older than the sources,
//!   and that dlock itself does not read the variable `DLOCK_MUTANT`.
//! - `scene` runs both programs. The verdict depends on which processes are alive.
//! - `killing`, `replies`, `granting` and `lost_grants` contain the scenarios.

mod granting;
mod killing;
mod lost_grants;
mod replies;
pub(crate) mod scene;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use testkit::cli_runner::{Dlock, Outcome};

/// The command that builds the mutant. `make test` runs this command. To run these tests alone, run this command first.
const BUILD: &str = "cargo build --locked --features mutants --bin dlock-mutant";

/// The environment variable that lists the safeguards to disable.
pub(crate) const VARIABLE: &str = "DLOCK_MUTANT";

/// Returns the path of the mutant program, which is in the same folder as dlock. Fails if the program is missing or
/// older than the sources.
#[track_caller]
pub(crate) fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_dlock")).with_file_name("dlock-mutant");
    up_to_date(&path, BUILD);
    path
}

/// Fails if the program `path` is missing or older than the sources. The failure message contains `command`, which
/// builds the program.
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

/// Returns the modification time of the newest file below `folder`.
fn newest(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).expect("src can be read");
    let times = entries.map(|entry| {
        let path = entry.expect("src can be read").path();
        match path.is_dir() {
            true => newest(&path),
            false => changed(&path).expect("the source file exists"),
        }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

#[test]
fn dlock_itself_does_not_read_the_mutant_variable() {
    let named_in = |path: &Path| {
        let grep = Command::new("grep")
            .args(["-q", "-a", "-F", VARIABLE])
            .arg(path)
            .status();
        grep.expect("grep runs").success()
    };
    assert!(
        named_in(&program()),
        "the mutant does not contain {VARIABLE}"
    );
    let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
    assert!(!named_in(dlock), "dlock contains {VARIABLE}");
    with_an_unknown_mutant(dlock).expect(
        64,
        "",
        "the environment variable DLOCK_MUTANT is unknown",
    );
}

#[test]
fn mutant_with_an_unknown_name_does_not_run() {
    with_an_unknown_mutant(&program()).expect(
        101,
        "",
        "DLOCK_MUTANT contains an unknown safeguard: nonsense",
    );
}

/// Runs `program` with an unknown name in `DLOCK_MUTANT`. The ttl is too short, so the run ends before it connects to a
/// server.
fn with_an_unknown_mutant(program: &Path) -> Outcome {
    let arguments = ["exec", "-a", "init", "--ttl", "1ms", "--", "true"];
    Dlock::of(program, arguments)
        .env("DLOCK_URL", "mysql://nobody@localhost/nothing")
        .env(VARIABLE, "nonsense")
        .run()
}
