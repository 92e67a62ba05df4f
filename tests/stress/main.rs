//! The rounds: the promises for many replicas and for a crontab on many machines, counted on both servers.
//!
//! ```text
//! make stress ROUNDS=20 TICKS=50 SEED=7     on MariaDB and MySQL at the same time, about eight minutes
//! make stress ROUNDS=5 TICKS=0 TTL=30       only rounds, with another ttl in seconds
//! ```
//! The program exits with 1 if a round or a tick is a miss. A short run is one of the tests; it does not check the
//! duration, because other programs may use the machine. The seed decides when the first holder is killed, which
//! replicas are stopped and when, and when hosts start.
//!
//! - `replicas` runs a round: many replicas start, and one succeeds although the first holder is killed
//! - `crontab` runs a tick: many hosts start, and one runs the job
//! - `checks` decides whether they are a miss (`checks_test` tests it), `report` prints the results

mod checks;
mod crontab;
mod options;
mod replicas;
mod report;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../it/cli_runner.rs"]
mod cli_runner;
#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../it/command.rs"]
mod command;
#[allow(dead_code, reason = "the benches use the rest of it")]
#[path = "../../benches/machine/host.rs"]
mod host;
#[allow(dead_code, reason = "the benches use the rest of it")]
#[path = "../../benches/queue/sample.rs"]
mod sample;
#[path = "../it/servers.rs"]
mod servers;

use std::process::ExitCode;
use std::thread;

use cli_runner::Dlock;
use options::Options;
use report::Tally;
use servers::{Flavour, Server};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Options::read(&arguments) {
        Ok(Some(options)) => both(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rounds: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs on all flavours at the same time.
fn both(options: &Options) -> ExitCode {
    println!("{}", report::beginning(options));
    let tallies = thread::scope(|scope| {
        let sides = Flavour::ALL.map(|flavour| scope.spawn(move || side(flavour, options)));
        sides.map(thread::ScopedJoinHandle::join)
    });
    let mut holds = true;
    for tally in tallies {
        match tally {
            Ok(tally) => {
                print!("{}", tally.text());
                holds &= tally.holds();
            }
            // The thread has printed its panic message already.
            Err(_) => holds = false,
        }
    }
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs all rounds and then all ticks on one server.
fn side(flavour: Flavour, options: &Options) -> Tally {
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
