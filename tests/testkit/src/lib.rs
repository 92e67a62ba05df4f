//! Tools for the tests and the benchmarks of dlock.
//!
//! - Programs: `servers` starts MariaDB and MySQL, `sql` executes statements on them, `each_server` runs a test on each of
//!   them, `clusters` starts clusters of them, `cli_runner` runs dlock, `holder` starts a holder that a test controls,
//!   `terminal` provides a pseudo-terminal, `shell` a shell with completions, and `browser` a browser.
//! - Commands: `command` and `recorder` contain commands for dlock to run, and `compiler` builds C programs and libraries.
//! - Networks: `proxy` and `network` inject faults, `middle` starts HAProxy and MySQL Router, `multiplexer` shares one
//!   session among clients, and `http` is a client of `dlock serve`.
//! - `arguments` reads the command line of a test without a test harness.
//! - `bench`: what only benchmarks and long runs need

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

pub mod arguments;
pub mod bench;
pub mod browser;
pub mod cli_runner;
pub mod clusters;
pub mod command;
pub mod compiler;
pub mod each_server;
pub mod holder;
pub mod http;
pub mod middle;
pub mod multiplexer;
pub mod network;
pub mod proxy;
pub mod recorder;
pub mod servers;
pub mod shell;
pub mod sql;
pub mod terminal;

pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the files below `folder` whose names end with a dot and `extension`, in any order.
pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => files_below(&path, extension),
        false => vec![path],
    });
    let has_extension = |path: &PathBuf| path.extension().is_some_and(|end| end == extension);
    files.filter(has_extension).collect()
}

/// Returns the path of the dlock that Cargo has built for this test or benchmark. It is in the folder above the program
/// of the test.
pub fn dlock() -> PathBuf {
    built().join("dlock")
}

/// Returns the target folder's folder for the files of tests.
pub fn target_tmp() -> PathBuf {
    let target = built().parent().map(|target| target.join("tmp"));
    target.expect("the target folder has a folder for each profile")
}

fn built() -> PathBuf {
    let program = env::current_exe().expect("/proc is mounted");
    let built = program.ancestors().nth(2);
    built.expect("a test is in a folder").to_owned()
}
