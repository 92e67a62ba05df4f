//! The `dlock-mutant` program is a build of dlock whose safeguards can be disabled. Only tests use this program. See
//! `src/mutant.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlock::run().code())
}
