//! Tools for benchmarks and long runs: the compared programs, large databases, measurements, and pages with results.

pub mod etcd;
pub mod host;
pub mod markdown;
pub mod population;
pub mod sample;
pub mod site;
pub mod timing;
pub mod traffic;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use crate::servers::Database;

/// Returns the sections that the arguments of a benchmark select. Without arguments, these are `defaults`; `others` run only
/// if they are selected. None for `cargo test --benches`, which runs a benchmark with an unoptimized dlock.
pub fn sections<'a>(defaults: &[&'a str], others: &[&'a str]) -> Option<Vec<&'a str>> {
    let all = [defaults, others].concat();
    let (flags, names): (Vec<String>, Vec<String>) = env::args()
        .skip(1)
        .partition(|argument| argument.starts_with('-'));
    if !flags.iter().any(|flag| flag == "--bench") {
        return None;
    }
    for name in &names {
        let is_known = all.contains(&name.as_str());
        assert!(is_known, "no section {name}; the sections are {all:?}");
    }
    let is_wanted = |section: &&str| names.iter().any(|name| name == section);
    Some(match names.is_empty() {
        true => defaults.to_vec(),
        false => all.into_iter().filter(is_wanted).collect(),
    })
}

/// Returns the number of rounds in the variable `ROUNDS`, or `default`.
pub fn rounds(default: usize) -> usize {
    let rounds = env::var("ROUNDS").map_or(default, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    assert!(rounds > 0, "ROUNDS must be at least 1");
    rounds
}

/// Returns a command for `program`. All compared programs have only `PATH` in their environment, and /dev/null as standard
/// input, output and error.
pub fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Returns the path of a copy of dlock. Linux caches a file that the linker has written in smaller pieces than a copy, so an
/// `exec` of the linker's file takes about 15 % longer than one of the copy, which is like an installed program.
pub fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let folder = crate::target_tmp();
        fs::create_dir_all(&folder).expect("the target folder can be written");
        let copy = folder.join("measured-dlock");
        // A copy of an earlier run may still be executed, so it is not overwritten.
        let _ = fs::remove_file(&copy);
        fs::copy(crate::dlock(), &copy).expect("dlock can be copied");
        copy
    })
}

/// Returns `dlock ARGUMENTS…` on `database`, over TCP without TLS.
pub fn dlock(database: &Database, arguments: &[&str]) -> Command {
    let mut command = bare(program());
    command.args(arguments).env("DLOCK_URL", database.url());
    command
}

/// Returns `command` as a program that the kernel kills when this process is killed, so that no waiter outlives an
/// interrupted benchmark.
pub fn tied(command: &Command) -> Command {
    let mut tied = bare("setpriv");
    tied.args(["--pdeathsig", "KILL"])
        .arg(command.get_program())
        .args(command.get_args());
    tied.envs((command.get_envs()).filter_map(|(name, value)| Some((name, value?))));
    tied
}

/// Runs `command`. Panics if it fails.
pub fn succeed(command: &mut Command) {
    let status = command.status().expect("the program starts");
    assert!(status.success(), "{command:?}: {status}");
}
