//! The `dlock` program. All code is in the library, so that tests and benchmarks can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlock::run().code())
}
