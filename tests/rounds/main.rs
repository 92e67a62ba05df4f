//! The rounds: what is promised to a crowd of replicas and to a crontab on many machines, counted on both servers.
//!
//! ```text
//! make rounds ROUNDS=20 TICKS=50 SEED=7     on MariaDB and MySQL side by side, about eight minutes
//! make rounds ROUNDS=5 TICKS=0 TTL=30       only rounds, with another lease (in seconds)
//! ```
//! Ends with 1 if a round or a tick misses. A short run is one of the tests; there nobody looks at the time that it
//! took, since other programs may have had the machine. The seed says when the first holder is killed, who is stopped
//! when, and when hosts start.
//!
//! - `replicas` is a round: many start, one succeeds though the first is killed; `crontab` is a tick: many start, one runs
//! - `judge` says what makes them a miss (`bad_rounds` checks it), `report` writes it down

mod crontab;
mod judge;
mod options;
mod replicas;
mod report;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../it/command.rs"]
mod command;
#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../it/dlock.rs"]
mod dlock;
#[allow(dead_code, reason = "the benches use the rest of it")]
#[path = "../../benches/machine/host.rs"]
mod host;
#[allow(dead_code, reason = "the benches use the rest of it")]
#[path = "../../benches/line/sample.rs"]
mod sample;
#[path = "../it/servers.rs"]
mod servers;

use std::process::ExitCode;
use std::thread;

use dlock::Dlock;
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

/// Runs on all flavours side by side.
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
            // Its message is out already.
            Err(_) => holds = false,
        }
    }
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs all rounds, then all ticks, on one server.
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
