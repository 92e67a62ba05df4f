//! The options on the command line.

use std::path::PathBuf;
use std::time::Duration;

use testkit::arguments::{Arguments, dlock_under_test};
use testkit::servers::Flavour;

use crate::tool::Tool;

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
    /// If true, each tool runs only on its own flavour.
    pub(crate) is_sample: bool,
    pub(crate) dlock: PathBuf,
    /// If true, a next command that starts later than promised is a failure, and the statements are long.
    pub(crate) is_timed: bool,
    pub(crate) scale: Scale,
}

#[derive(Debug)]
pub(crate) struct Scale {
    /// Length of the time in which the holder is killed after the start of the ALTER.
    pub(crate) latest_kill: Duration,
    pub(crate) ttl: Duration,
    /// Number of rows in the table of a tool. In a timed run, the rollback of a killed INSERT takes a noticeable time.
    pub(crate) rows: u32,
    pub(crate) alter_rows: u32,
    /// Time that an ALTER without a tool takes on an idle machine. In a short run, it is still much longer than the
    /// latest kill and the ttl together.
    pub(crate) alter_time: Duration,
}

const SHORT: Scale = Scale {
    latest_kill: Duration::from_secs(1),
    // A busy machine cannot renew a shorter lease.
    ttl: Duration::from_secs(4),
    rows: 20_000,
    alter_rows: 100_000,
    alter_time: Duration::from_secs(30),
};

const TIMED: Scale = Scale {
    latest_kill: Duration::from_secs(3),
    ttl: Duration::from_secs(3),
    rows: 50_000,
    alter_rows: 1_000_000,
    alter_time: Duration::from_mins(1),
};

impl Scale {
    /// Returns the time that the ALTER of a tool takes on an idle machine. If the holder is killed, the ALTER still copies
    /// rows when the lease expires.
    pub(crate) fn migration_time(&self) -> Duration {
        self.latest_kill + self.ttl + Duration::from_millis(1_500)
    }
}

impl Options {
    pub(crate) fn read(arguments: &Arguments) -> Result<Self, String> {
        let is_timed = arguments.has("--timed");
        let flavour = arguments.text("--flavour").unwrap_or("both");
        let mut flavours = Vec::from(Flavour::ALL);
        flavours.retain(|it| ["both", &it.to_string()].contains(&flavour));
        let only: Vec<&str> = arguments.words("--only").collect();
        let mut tools: Vec<&Tool> = Tool::ALL.iter().collect();
        tools.retain(|tool| only.is_empty() || only.contains(&tool.name));
        if flavours.is_empty() || tools.len() < only.len() {
            return Err("the flavours are mariadb, mysql and both, and the tools are alembic, django and knex".to_owned());
        }
        // `make` passes an empty text for a variable that is not set, and then no ALTER runs.
        let alters = u32::from(!arguments.has("--alters"));
        Ok(Self {
            rounds: arguments.number("--rounds")?.unwrap_or(1),
            alters: arguments.number("--alters")?.unwrap_or(alters),
            seed: arguments.seed()?,
            flavours,
            tools,
            dlock: dlock_under_test()?,
            is_sample: !is_timed && only.is_empty(),
            is_timed,
            scale: if is_timed { TIMED } else { SHORT },
        })
    }
}
