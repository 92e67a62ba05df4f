//! The `dlock-mutant` program: dlock built so that one of its safeguards can be disabled. It is for tests only; see
//! `src/mutant.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlock::run().code())
}
