//! A MariaDB or MySQL with a hundred actions in one database and a million in another, and what is done there.

use std::path::Path;
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use serde_json::Value;

use crate::ACTION;
use crate::pair::Pair;
use crate::population::{HELD, Population};
use crate::race::{Contestant, Record};
use crate::servers::{Flavour, Server};
use crate::traffic::{Traffic, traffic};

/// All actions are held.
pub(crate) const FEW: u32 = HELD;

/// As many are held.
pub(crate) const MANY: u32 = 1_000_000;

/// A running server with its databases.
pub(crate) struct Site {
    pub(crate) server: Server,
    few: Population,
    /// The same without the secondary indices of `dlock_lock`.
    plain: Population,
    many: Population,
}

/// The times of one site, in the order of [`Site::contestants`].
pub(crate) struct Times<'a> {
    /// Of `dlock status init`, with few actions and with many.
    pub(crate) one: [&'a Record; 2],
    /// Of `dlock status`.
    pub(crate) all: [&'a Record; 2],
    /// Of `dlock exec -a x -- true`.
    pub(crate) exec: [&'a Record; 2],
    /// And with few actions and no secondary indices.
    pub(crate) plain: &'a Record,
}

impl<'a> Times<'a> {
    /// How many records there are of a site.
    pub(crate) const COUNT: usize = 7;

    pub(crate) fn of(records: &'a [Record]) -> Self {
        let [one, one_many, all, all_many, exec, exec_many, plain] = records else {
            panic!("{} records of a site", records.len());
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

    /// In bytes.
    pub(crate) fn buffer_pool(&self) -> u64 {
        let size = self
            .server
            .admin()
            .query_first("SELECT @@innodb_buffer_pool_size");
        size.expect("root may look").expect("one row")
    }

    /// A holder and a waiter of [`ACTION`] in each database that is looked at.
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

    /// Panics unless what is to be timed shows what is to be seen.
    pub(crate) fn check(&self) {
        for population in [&self.few, &self.many] {
            let all = shown(population.dlock(&["status", "--json"]));
            assert_eq!(all.len(), HELD as usize, "so many are held");
            for lock in &all {
                assert_eq!(lock["state"], "held", "{lock}");
                assert_eq!(lock["session_alive"], true, "{lock}");
                assert_eq!(
                    lock["last_ending"].is_null(),
                    lock["action"] == ACTION,
                    "{lock}"
                );
            }
            let one = shown(population.dlock(&["status", "--json", ACTION]));
            let waiters = one[0]["waiters"].as_array();
            assert_eq!(waiters.map(Vec::len), Some(1), "{one:?}");
        }
    }

    /// What is timed here; see [`Times`].
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

    /// What `dlock status init` and `dlock status` send.
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

/// The locks in the document that `status` writes.
fn shown(mut status: Command) -> Vec<Value> {
    let output = status.stdout(Stdio::piped()).output().expect("dlock runs");
    assert!(output.status.success(), "dlock status: {}", output.status);
    let document: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    document["locks"].as_array().expect("a list").clone()
}
