//! The options on the command line. Arguments that `cargo test` passes to every target are also accepted.

use std::time::Duration;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u32,
    pub(crate) ticks: u32,
    pub(crate) seed: u64,
    /// Ttl of the replicas.
    pub(crate) ttl: Duration,
    /// If true, a round that takes longer than promised is a failure.
    pub(crate) is_timed: bool,
}

impl Options {
    /// Reads the command line. Returns None if the command line does not select this test.
    pub(crate) fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            rounds: 1,
            ticks: 5,
            seed: getrandom::u64().expect("the system has random numbers") % 1_000_000,
            // Each round waits until a lease expires, so the ttl is short. It is longer than the time that all
            // replicas on both servers take to start on two processors.
            ttl: Duration::from_secs(5),
            is_timed: false,
        };
        let mut filters = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((argument, "")) {
                ("--rounds", text) => options.rounds = number(text)?,
                ("--ticks", text) => options.ticks = number(text)?,
                // `make` passes an empty seed if SEED is not set.
                ("--seed", "") => {}
                ("--seed", text) => options.seed = number(text)?,
                ("--ttl", text) => options.ttl = Duration::from_secs(number(text)?),
                ("--timed", _) => options.is_timed = true,
                ("--test-threads" | "--format" | "--color" | "--skip" | "-Z", "") => {
                    arguments.next();
                }
                ("--list", _) => return Ok(None),
                (name, _) if name.starts_with('-') => {}
                (filter, _) => filters.push(filter),
            }
        }
        let is_selected =
            filters.is_empty() || filters.iter().any(|filter| "rounds".contains(filter));
        Ok(is_selected.then_some(options))
    }
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}
