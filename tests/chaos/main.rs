//! The chaos run: many contenders on real servers, random faults from one seed, and checkers over the history.
//!
//! ```text
//! make chaos SECONDS=1800 SEED=7 FLAVOUR=mysql      FLAVOUR: mariadb, mysql, or both side by side
//! DLOCK_UNDER_TEST=path make chaos …                another dlock than the one that is built here
//! make chaos ONLY=kill-front,freeze-front-long …    only these faults
//! cargo test --test chaos -- --judge --folder=FOLDER  judge these histories once more
//! ```
//! Ends with 1 if a claim does not hold. The same program is the command that dlock runs (`--worker`).
//!
//! - `schedule` decides beforehand, from the seed: `contender` and `nemesis` do it, to the `kind`s of faults
//! - `command` bears witness of its life, `store` checks tokens, `undertaker` sees trees die: all into the `history`
//! - `story` and `check` judge it afterwards

mod board;
mod check;
mod command;
mod contender;
mod course;
mod history;
mod kind;
mod nemesis;
mod options;
mod probe;
mod processes;
#[path = "../it/proxy.rs"]
mod proxy;
mod readers;
mod report;
mod run;
mod schedule;
#[path = "../it/servers.rs"]
mod servers;
mod site;
mod store;
mod story;
mod undertaker;
mod weather;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use options::Options;
use servers::Flavour;
use story::Story;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((mode, rest)) if mode == "--worker" => command::work(rest),
        Some((mode, rest)) if mode == "--descendant" => command::descend(rest),
        _ => {}
    }
    match Options::read(&arguments) {
        Ok(Some(options)) => both(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs on all flavours side by side.
fn both(options: &Options) -> ExitCode {
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
        let story = match options.judges_only {
            true => Story::of(history::read(&folder).expect("there is a history")),
            false => run::run(flavour, options, &folder),
        };
        report::report(&story, flavour, options, &folder)
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
    let mut holds = true;
    for report in reports {
        match report {
            Ok((text, all)) => {
                print!("{text}");
                holds &= all;
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
