//! Checks that no statement of a dead holder runs on the server when the next command starts, with real migration tools
//! on MariaDB and MySQL.
//!
//! ```text
//! make migrations ROUNDS=30 SEED=7 FLAVOUR=mysql ONLY=knex   kill the holder of a recipe in each round
//! make migrations ALTERS=100                                 kill the holder of an ALTER of a minute in each round
//! DLOCK_UNDER_TEST=path make migrations …                    test the program at this path
//! ```
//! The program exits with 1 if a round fails. `cargo test` makes a short run, with each tool on one server. It does not
//! check durations, because other programs may use the machine. With `--begin`, the same program is the start of each
//! command that dlock runs.
//!
//! In a round of a tool, three replicas run the recipe in `examples/migrations/` at the same time on a new database,
//! with the larger migrations in `projects`. The holder is killed at a random moment, and its replica restarts once, as
//! Kubernetes restarts a container. The killed statement cannot commit before the next command starts, because the
//! harness keeps a transaction open that has read the table. Otherwise, an ALTER that is nearly complete could commit
//! while the lease of the dead holder expires, and no lock can prevent this.
//!
//! - `tool` describes the tools, and `statements` contains the SQL of the migrations.
//! - `migration` runs a round of a tool, and `alter` a round of an ALTER without a tool. `kill` kills the holder.
//! - `start` stops each command at its start until the harness has looked at the sessions. `observer` reads the sessions
//!   of the server every few milliseconds.
//! - `checks` finds the failures, and `report` prints the results. `checks_test` tests `checks`.

mod alter;
mod app_database;
mod checks;
mod kill;
mod migration;
mod observer;
mod options;
mod report;
mod sessions;
mod start;
mod statements;
mod tool;

use std::process::ExitCode;

use alter::Alters;
use migration::Migrations;
use options::Options;
use report::Tally;
use statements::Cost;
use testkit::arguments::{self, concurrently};
use testkit::servers::{Flavour, Server};
use tool::Tool;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((mode, command)) = arguments.split_first()
        && mode == start::BEGIN
    {
        start::begin(command);
    }
    arguments::main("migrations", Options::read, run_all)
}

/// Runs on all flavours concurrently, and prints the summaries. Returns true if no round has failed.
fn run_all(options: &Options) -> bool {
    let (seed, ttl, is_timed) = (options.seed, options.scale.ttl, options.is_timed);
    println!("migrations: seed {seed}, ttl {ttl:?}, late starts are failures: {is_timed}");
    let mut all_hold = true;
    for tallies in concurrently(&options.flavours, |flavour| run_on(*flavour, options)) {
        all_hold &= tallies.is_ok();
        for tally in tallies.into_iter().flatten() {
            print!("{}", tally.text());
            all_hold &= tally.holds();
        }
    }
    all_hold
}

/// Runs all rounds on one server. A short run makes the rounds of all tools at the same time, because a round mostly
/// waits. A timed run makes one round at a time, so that the rounds do not delay each other.
fn run_on(flavour: Flavour, options: &Options) -> Vec<Tally> {
    // A server without its binary log, which no round needs, inserts the rows faster.
    let server = Server::start(flavour, &["--skip-log-bin"]);
    let cost = Cost::measure(&server);
    let run = |tool: Option<&'static Tool>| {
        let mut tally = Tally::new(flavour, tool.map_or(alter::NAME, |tool| tool.name), options);
        if let Some(tool) = tool {
            let mut migrations = Migrations::new(&server, tool, options, &cost);
            for number in 1..=options.rounds {
                println!("{}", tally.add(migrations.round(number)));
            }
        } else {
            let alters = Alters::new(&server, options, &cost);
            for number in 1..=options.alters {
                println!("{}", tally.add(alters.round(number)));
            }
        }
        tally
    };
    let is_run = |tool: &Tool| !options.is_sample || tool.flavour == flavour;
    let tools = options.tools.iter().filter(|_| options.rounds > 0);
    let tools = tools.filter(|tool| is_run(tool)).map(|tool| Some(*tool));
    let tools = tools.chain((options.alters > 0).then_some(None));
    if options.is_timed {
        return tools.map(run).collect();
    }
    let tallies = concurrently(tools, run).into_iter();
    let tallies = tallies.map(|tally| tally.expect("no thread of a server panics"));
    tallies.collect()
}
