//! The stress test. It checks the promises for many replicas and for a crontab on many hosts, on MariaDB and MySQL.
//!
//! ```text
//! make stress ROUNDS=20 TICKS=50 SEED=7     takes about eight minutes
//! make stress ROUNDS=5 TICKS=0 TTL=30       only rounds, with a different ttl in seconds
//! ```
//! The program exits with 1 if a round or a tick fails. `cargo test` makes a short run. The short run does not check
//! durations, because other programs may use the machine. The seed determines when the first holder is killed, which
//! replicas are stopped and when, and when the hosts start.
//!
//! - `replicas` runs a round. Many replicas start, and exactly one must succeed although the first holder is killed.
//! - `crontab` runs a tick. Many hosts start, and exactly one must run the job.
//! - `checks` finds the failures, and `report` prints the results. `checks_test` tests `checks`.

mod checks;
mod crontab;
mod options;
mod replicas;
mod report;

use std::process::ExitCode;
use std::thread;

use options::Options;
use report::Tally;
use testkit::cli_runner::Dlock;
use testkit::servers::{Flavour, Server};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Options::read(&arguments) {
        Ok(Some(options)) => run_all(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stress: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs on all flavours concurrently, and prints the summaries.
fn run_all(options: &Options) -> ExitCode {
    println!("{}", report::first_line(options));
    let tallies = thread::scope(|scope| {
        let threads = Flavour::ALL.map(|flavour| scope.spawn(move || run_on(flavour, options)));
        threads.map(thread::ScopedJoinHandle::join)
    });
    let mut all_hold = true;
    for tally in tallies {
        match tally {
            Ok(tally) => {
                print!("{}", tally.text());
                all_hold &= tally.holds();
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

/// Runs all rounds and then all ticks on one server.
fn run_on(flavour: Flavour, options: &Options) -> Tally {
    let server = Server::start(flavour, &[]);
    let database = server.database("rounds");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    let mut tally = Tally::new(flavour, options.is_timed);
    for number in 1..=options.rounds {
        let round = replicas::round(&database, options, number);
        println!("{}", tally.count_round(number, &round));
    }
    crontab::ticks(&database, options, |number, tick| {
        println!("{}", tally.count_tick(number, tick));
    });
    tally
}
