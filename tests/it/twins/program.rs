//! The `dlock-twin` program: the same dlock, built so that it can be told to leave out one of its
//! mechanisms. For tests alone; see `src/twin.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlock::run().code())
}
