//! The command line. It also accepts the arguments that `cargo test` passes to every target.

use std::time::Duration;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u32,
    pub(crate) ticks: u32,
    pub(crate) seed: u64,
    /// Ttl of the replicas.
    pub(crate) ttl: Duration,
    /// If true, a round that takes longer than promised is a miss.
    pub(crate) is_timed: bool,
}

impl Options {
    /// Reads the command line. Returns None if it selects other tests than this one.
    pub(crate) fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            rounds: 1,
            ticks: 5,
            seed: getrandom::u64().expect("the system has random numbers") % 1_000_000,
            // Short, because each round waits until it expires, but longer than the start of all replicas on both
            // servers takes on two processors.
            ttl: Duration::from_secs(5),
            is_timed: false,
        };
        let mut filters = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((argument, "")) {
                ("--rounds", text) => options.rounds = number(text)?,
                ("--ticks", text) => options.ticks = number(text)?,
                // `make` passes an empty seed if none is given.
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
        let is_meant = filters.is_empty() || filters.iter().any(|one| "rounds".contains(one));
        Ok(is_meant.then_some(options))
    }
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}
