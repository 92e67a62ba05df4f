//! A MariaDB or MySQL server with a hundred actions in one database and a million in another.

use std::path::Path;
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::bench::population::ACTION;
use testkit::bench::population::{HELD, Population};
use testkit::bench::timing::{Contestant, Record};
use testkit::bench::traffic::{Traffic, traffic};
use testkit::servers::{Flavour, Server};

use crate::pair::Pair;

/// Number of actions in the small database, all of which are held.
pub(crate) const FEW: u32 = HELD;

/// Number of actions in the large database. As many of them are held as in the small database.
pub(crate) const MANY: u32 = 1_000_000;

/// A running server with its three databases.
pub(crate) struct Site {
    pub(crate) server: Server,
    few: Population,
    /// Like `few`, but without the secondary indices of `dlock_lock`.
    plain: Population,
    many: Population,
}

/// The run times of one site.
pub(crate) struct Times<'a> {
    /// Times of `dlock status init`, with few actions and with many.
    pub(crate) one: [&'a Record; 2],
    /// Times of `dlock status`, with few actions and with many.
    pub(crate) all: [&'a Record; 2],
    /// Times of `dlock exec -a x -- true`, with few actions and with many.
    pub(crate) exec: [&'a Record; 2],
    /// Times of `dlock exec -a x -- true`, with few actions and no secondary indices.
    pub(crate) plain: &'a Record,
}

impl<'a> Times<'a> {
    /// Number of contestants of a site.
    pub(crate) const COUNT: usize = 7;

    pub(crate) fn of(records: &'a [Record]) -> Self {
        let [one, one_many, all, all_many, exec, exec_many, plain] = records else {
            panic!("{} records, not {}", records.len(), Self::COUNT);
        };
        Self {
            one: [one, one_many],
            all: [all, all_many],
            exec: [exec, exec_many],
            plain,
        }
    }
}

impl Site {
    pub(crate) fn start(flavour: Flavour) -> Self {
        let server = Server::start(flavour, &[]);
        Self {
            few: Population::of(&server, FEW),
            plain: Population::of(&server, FEW).without_indices(),
            many: Population::of(&server, MANY),
            server,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.server.flavour() {
            Flavour::MariaDb => "MariaDB",
            Flavour::MySql => "MySQL",
        }
    }

    /// Returns the size of the buffer pool in bytes.
    pub(crate) fn buffer_pool(&self) -> u64 {
        let size = self
            .server
            .admin()
            .query_first("SELECT @@innodb_buffer_pool_size");
        size.expect("root can read the settings").expect("one row")
    }

    /// Starts a holder and a waiter of [`ACTION`] in each database that is read.
    pub(crate) fn pairs(&self, folder: &Path) -> [Pair; 2] {
        [&self.few, &self.many].map(|population| {
            let lock = |command: &[&std::ffi::OsStr]| {
                let mut lock = population.dlock(&["exec", "-a", ACTION, "--"]);
                lock.args(command);
                lock
            };
            let fifo = folder.join(&population.database.name);
            Pair::start(lock, || population.waiting() == 1, &fifo)
        })
    }

    /// Panics if the measured programs do not report the expected locks and waiters.
    pub(crate) fn check(&self) {
        for population in [&self.few, &self.many] {
            let all = shown(population.dlock(&["status", "--json"]));
            assert_eq!(all.len(), HELD as usize, "number of held actions");
            for lock in &all {
                assert_eq!(lock["state"], "held", "{lock}");
                assert_eq!(lock["session_alive"], true, "{lock}");
                assert_eq!(
                    lock["last_outcome"].is_null(),
                    lock["action"] == ACTION,
                    "{lock}"
                );
            }
            let one = shown(population.dlock(&["status", "--json", ACTION]));
            let waiters = one[0]["waiters"].as_array();
            assert_eq!(waiters.map(Vec::len), Some(1), "{one:?}");
        }
    }

    /// Returns the contestant that reads one lock. It is compared with etcdctl.
    pub(crate) fn read_one(&self) -> Contestant {
        let name = format!("`dlock status {ACTION}`, {}", self.name());
        Contestant::program(&name, self.few.dlock(&["status", ACTION]))
    }

    /// Returns the contestants of this site, in the order that [`Times::of`] expects.
    pub(crate) fn contestants(&self) -> [Contestant; Times::COUNT] {
        let exec = ["exec", "-a", "x", "--", "true"];
        [
            (&self.few, &["status", ACTION][..]),
            (&self.many, &["status", ACTION]),
            (&self.few, &["status"]),
            (&self.many, &["status"]),
            (&self.few, &exec),
            (&self.many, &exec),
            (&self.plain, &exec),
        ]
        .map(|(population, arguments)| {
            let name = format!("`dlock {}`, {}", arguments.join(" "), self.name());
            Contestant::program(&name, population.dlock(arguments))
        })
    }

    /// Returns the numbers of packets of `dlock status init` and of `dlock status`.
    pub(crate) fn traffic(&self) -> [Traffic; 2] {
        [&["status", ACTION][..], &["status"]].map(|arguments| {
            traffic(self.server.port(), |port| {
                let mut command = self.few.dlock(arguments);
                command.env("DLOCK_URL", self.few.database.url_through(port));
                command
            })
        })
    }
}

/// Returns the locks in the JSON document that `status` prints.
fn shown(mut status: Command) -> Vec<Value> {
    let output = status.stdout(Stdio::piped()).output().expect("dlock runs");
    assert!(output.status.success(), "dlock status: {}", output.status);
    let document: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    document["locks"].as_array().expect("a list").clone()
}
