//! The options on the command line. Arguments that `cargo test` passes to every target are also accepted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use testkit::servers::Flavour;

use crate::tool::Tool;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// Number of rounds of each tool on each flavour.
    pub(crate) rounds: u32,
    /// Number of rounds of an ALTER without a tool on each flavour.
    pub(crate) alters: u32,
    pub(crate) seed: u64,
    /// Flavours to test. They run concurrently.
    pub(crate) flavours: Vec<Flavour>,
    pub(crate) tools: Vec<&'static Tool>,
    /// The program under test.
    pub(crate) dlock: PathBuf,
    /// If true, a next command that starts later than promised is a failure, and the statements are long.
    pub(crate) is_timed: bool,
}

impl Options {
    /// Length of the time in which the holder is killed after the start of the ALTER.
    pub(crate) fn latest_kill(&self) -> Duration {
        match self.is_timed {
            true => Duration::from_secs(3),
            false => Duration::from_secs(1),
        }
    }

    /// Time that the ALTER of a tool takes on an idle machine. If the holder is killed, the ALTER still copies rows when
    /// the lease expires.
    pub(crate) fn migration_time(&self) -> Duration {
        self.latest_kill() + self.ttl() + Duration::from_millis(1_500)
    }

    /// Number of rows in the table of a tool. In a timed run, the rollback of a killed INSERT takes a noticeable time.
    pub(crate) fn rows(&self) -> u32 {
        match self.is_timed {
            true => 50_000,
            false => 20_000,
        }
    }

    /// Time that an ALTER without a tool takes on an idle machine. In a short run, it is still much longer than the
    /// latest kill and the ttl together.
    pub(crate) fn alter_time(&self) -> Duration {
        match self.is_timed {
            true => Duration::from_mins(1),
            false => Duration::from_secs(30),
        }
    }

    /// Ttl of the replicas.
    pub(crate) fn ttl(&self) -> Duration {
        match self.is_timed {
            true => Duration::from_secs(3),
            false => Duration::from_secs(2),
        }
    }

    /// Reads the command line. Returns None if the command line does not select this test.
    pub(crate) fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let dlock = std::env::var_os("DLOCK_UNDER_TEST")
            .map_or_else(|| env!("CARGO_BIN_EXE_dlock").into(), PathBuf::from);
        let mut options = Self {
            rounds: 1,
            alters: 1,
            seed: getrandom::u64().expect("the system has random numbers") % 1_000_000,
            flavours: Flavour::ALL.into(),
            tools: Tool::ALL.iter().collect(),
            dlock: dlock
                .canonicalize()
                .map_err(|error| format!("{}: {error}", dlock.display()))?,
            is_timed: false,
        };
        let mut filters = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((argument, "")) {
                ("--rounds", text) => options.rounds = number(text)?,
                // `make` passes an empty text for a variable that is not set.
                ("--alters", "") => options.alters = 0,
                ("--alters", text) => options.alters = number(text)?,
                ("--seed", "") => {}
                ("--seed", text) => options.seed = number(text)?,
                ("--flavour", text) => options.flavours = flavours(text)?,
                ("--only", text) => options.tools = tools(text)?,
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
            filters.is_empty() || filters.iter().any(|filter| "migrations".contains(filter));
        Ok(is_selected.then_some(options))
    }

    /// Returns the random numbers of a round, which depend on the seed.
    pub(crate) fn random(&self, flavour: Flavour, name: &str, number: u32) -> Rng {
        let mut hasher = DefaultHasher::new();
        (self.seed, flavour.to_string(), name, number).hash(&mut hasher);
        Rng::with_seed(hasher.finish())
    }
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

fn flavours(text: &str) -> Result<Vec<Flavour>, String> {
    if ["", "both"].contains(&text) {
        return Ok(Flavour::ALL.into());
    }
    let named = |flavour: &Flavour| flavour.to_string() == text;
    let found: Vec<Flavour> = Flavour::ALL.into_iter().filter(named).collect();
    match found.is_empty() {
        true => Err(format!("{text}: mariadb, mysql or both")),
        false => Ok(found),
    }
}

fn tools(text: &str) -> Result<Vec<&'static Tool>, String> {
    if text.is_empty() {
        return Ok(Tool::ALL.iter().collect());
    }
    let names = text.split(',');
    names
        .map(|name| {
            let tool = Tool::ALL.iter().find(|tool| tool.name == name);
            tool.ok_or_else(|| format!("{name}: alembic, django or knex"))
        })
        .collect()
}
