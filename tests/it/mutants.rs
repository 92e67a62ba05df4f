//! Mutation tests. Each scenario runs with dlock, which must pass, and with a mutant, which must get the expected
//! verdict. A mutant is dlock with one or two safeguards disabled (see `src/mutant.rs`). Scenarios of statements and
//! sessions run on both kinds of server, and scenarios of processes and responses run on one.
//!
//! - This file checks that a released program does not read the variable `DLOCK_MUTANT`.
//! - `scene` runs both programs. The verdict depends on which processes are alive.
//! - `killing`, `replies`, `granting` and `lost_grants` contain the scenarios.

mod granting;
mod killing;
mod lost_grants;
mod replies;
pub(crate) mod scene;

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::cli_runner::Dlock;

use crate::static_build;

pub(crate) const VARIABLE: &str = "DLOCK_MUTANT";

/// Returns the path of dlock, in which [`VARIABLE`] disables safeguards.
#[track_caller]
pub(crate) fn program() -> PathBuf {
    match cfg!(feature = "mutants") {
        true => testkit::dlock(),
        false => {
            panic!("run the tests as `make test` does: cargo test --locked --features mutants")
        }
    }
}

#[test]
fn released_program_does_not_read_the_mutant_variable_and_a_mutant_needs_a_known_name() {
    let named_in = |path: &Path| {
        let grep = Command::new("grep")
            .args(["-q", "-a", "-F", VARIABLE])
            .arg(path)
            .status();
        grep.expect("grep runs").success()
    };
    assert!(named_in(&program()), "dlock does not contain {VARIABLE}");
    let released = static_build::program();
    assert!(!named_in(&released), "dlock contains {VARIABLE}");
    // The ttl is too short, so the run ends before it connects to a server.
    let with_an_unknown_mutant = |program: &Path| {
        Dlock::of(program, ["exec", "-a", "init", "--ttl=1ms", "--", "true"])
            .env("DLOCK_URL", "mysql://nobody@localhost/nothing")
            .env(VARIABLE, "nonsense")
            .run()
    };
    let unknown = "the environment variable DLOCK_MUTANT is unknown";
    with_an_unknown_mutant(&released).expect(64, "", unknown);
    let unknown = "DLOCK_MUTANT contains an unknown safeguard: nonsense";
    with_an_unknown_mutant(&program()).expect(101, "", unknown);
}
