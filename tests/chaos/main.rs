//! The chaos run. Many contenders run dlock on real servers, nemeses inject random faults from one seed, and checkers
//! evaluate the history.
//!
//! ```text
//! make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql      FLAVOUR: mariadb, mysql or both (default)
//! DLOCK_UNDER_TEST=path make chaos …                test the program at this path instead of the dlock built here
//! make chaos ONLY=kill-parent,freeze-parent-long …  inject only these faults
//! cargo test --test chaos -- --judge --folder=FOLDER  check the histories in FOLDER again
//! ```
//! The program exits with 1 if a property is violated. With `--worker`, the same program is the command that dlock
//! runs.
//!
//! - `schedule` derives all runs and faults from the seed. `contender` executes the runs, and `nemesis` injects the
//!   faults (`fault_kind`).
//! - `command` is the worker, `store` checks tokens, and `tree_watcher` detects the death of each process tree. Their
//!   events are written to the `history`.
//! - `timeline` and `check` evaluate the history after the chaos run.

mod check;
mod command;
mod contender;
mod fault_kind;
mod fault_phase;
mod history;
mod live_runs;
mod nemesis;
mod options;
mod probe;
mod processes;
#[path = "../it/proxy.rs"]
mod proxy;
mod readers;
mod report;
mod run;
mod run_context;
mod schedule;
#[path = "../it/servers.rs"]
mod servers;
mod store;
mod testbed;
mod timeline;
mod tree_watcher;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use options::Options;
use servers::Flavour;
use timeline::Timeline;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((mode, rest)) if mode == "--worker" => command::run_worker(rest),
        Some((mode, rest)) if mode == "--descendant" => command::run_descendant(rest),
        _ => {}
    }
    match Options::read(&arguments) {
        Ok(Some(options)) => run_all(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs on all flavours concurrently, and prints the reports.
fn run_all(options: &Options) -> ExitCode {
    let folder = options.folder.clone().unwrap_or_else(|| {
        let name = format!("chaos-{}-{}", options.seed, std::process::id());
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    });
    println!(
        "chaos: seed {}, {} s, histories in {}",
        options.seed,
        options.seconds,
        folder.display()
    );
    let run = |flavour: Flavour| {
        let folder = folder.join(flavour.to_string());
        let timeline = match options.only_checks {
            true => Timeline::of(history::read(&folder).expect("the history can be read")),
            false => run::run(flavour, options, &folder),
        };
        report::report(&timeline, flavour, options, &folder)
    };
    let reports: Vec<_> = thread::scope(|scope| {
        let spawn = |flavour: &Flavour| {
            let flavour = *flavour;
            scope.spawn(move || run(flavour))
        };
        let threads: Vec<_> = options.flavours.iter().map(spawn).collect();
        threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut all_hold = true;
    for report in reports {
        match report {
            Ok((text, holds)) => {
                print!("{text}");
                all_hold &= holds;
            }
            // The thread has printed its panic message already.
            Err(_) => all_hold = false,
        }
    }
    match all_hold {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
