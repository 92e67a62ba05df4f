//! The chaos run. Many contenders run dlock on real servers, nemeses inject random faults from one seed, and checkers
//! evaluate the history.
//!
//! ```text
//! make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql      FLAVOUR: mariadb, mysql or both (default)
//! make chaos TOPOLOGY=galera                        test several servers (see `topology`)
//! DLOCK_UNDER_TEST=path make chaos …                test the program at this path instead of the dlock built here
//! make chaos ONLY=kill-parent,freeze-parent-long …  inject only these faults
//! ```
//! The program exits with 1 if a property is violated. With `--worker`, the same program is the command that `dlock exec`
//! runs, and with `--client`, it is the program that uses `dlock hold`.
//!
//! - `topology` defines the servers, and `testbed` starts them.
//! - `schedule` derives all runs and faults from the seed. `contender` executes the runs, and `nemesis` injects the
//!   faults (`fault_kind`).
//! - `worker` and `client` are the programs under the lock, which do the same `work`. `store` checks tokens.
//!   Their events are written to the `history`.
//! - `bystander` has sessions that dlock must not end.
//! - `timeline` and `check` evaluate the history after the chaos run.

mod bystander;
mod check;
mod client;
mod contender;
mod fault_kind;
mod history;
mod live_runs;
mod nemesis;
mod options;
mod probe;
mod processes;
mod readers;
mod report;
mod run;
mod run_context;
mod schedule;
mod store;
mod testbed;
mod timeline;
mod topology;
mod work;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use options::Options;
use testkit::arguments::{self, concurrently};
use topology::Topology;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((mode, rest)) if mode == "--worker" => worker::run_worker(rest),
        Some((mode, rest)) if mode == "--client" => client::run_client(rest),
        Some((mode, rest)) if mode == "--descendant" => worker::run_descendant(rest),
        _ => {}
    }
    arguments::main("chaos", Options::read, run_all)
}

/// Runs on all topologies, and prints the reports. Returns true if all properties hold.
fn run_all(options: &Options) -> bool {
    let name = format!("chaos-{}-{}", options.seed, std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (seed, shown) = (options.seed, folder.display());
    println!("chaos: seed {seed}, histories in {shown}");
    let run = |topology: Topology| {
        let folder = folder.join(topology.to_string());
        let is_single = Topology::SINGLE.contains(&topology);
        let seconds = options.seconds.unwrap_or(if is_single { 20 } else { 15 });
        let timeline = run::run(topology, seconds, options, &folder);
        report::report(&timeline, topology, seconds, options, &folder)
    };
    let groups = options.topologies.iter();
    let reports = groups.flat_map(|topologies| concurrently(topologies, |topology| run(*topology)));
    let mut all_hold = true;
    for report in reports {
        let (text, holds) = report.unwrap_or_default();
        print!("{text}");
        all_hold &= holds;
    }
    all_hold
}
