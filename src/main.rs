//! The `dlock` program: everything is in the library, so that tests and benches reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlock::run().code())
}
