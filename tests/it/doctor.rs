//! `dlock doctor`: what is wrong with a server, an account or the tables is found, and what it says
//! to do about it helps.
//!
//! - `server`: what the server is, is set to and does
//! - `grants`, `tables`: what the account may do, and what the tables are
//! - `way`: what is between dlock and the server, and where that ends early
//! - `output`: the text and the JSON

mod grants;
mod output;
mod server;
mod tables;
mod way;

use mysql::prelude::Queryable;
use serde_json::Value;

use crate::dlock::Dlock;
use crate::proxy::Proxy;
use crate::servers::{Database, Server};

/// All checks, in their order.
const CHECKS: [&str; 18] = [
    "address",
    "connect",
    "tls",
    "login",
    "database",
    "server",
    "cluster",
    "proxy",
    "session",
    "writes",
    "grants",
    "tables",
    "gate",
    "durability",
    "replication",
    "clock",
    "round-trip",
    "connections",
];

/// What one run of `dlock doctor --json` found.
#[derive(Debug)]
struct Findings {
    status: i32,
    checks: Vec<Value>,
}

impl Findings {
    #[track_caller]
    fn of(dlock: Dlock) -> Self {
        let outcome = dlock.args(["doctor", "--json"]).run();
        assert_eq!(outcome.stderr, "", "{outcome:#?}");
        let document: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
        let status = outcome.status.expect("it ends by itself");
        assert_eq!(document["status"], status, "{document}");
        let checks = document["checks"].as_array().expect("a list").clone();
        for finding in &checks {
            let has_advice = ["why", "remedy"].map(|field| finding[field].is_string());
            let is_wrong = finding["verdict"] == "note" || finding["verdict"] == "mend";
            assert_eq!(has_advice, [is_wrong; 2], "{finding}");
        }
        let mut names: Vec<&str> = checks
            .iter()
            .filter_map(|one| one["check"].as_str())
            .collect();
        names.dedup();
        assert_eq!(names, CHECKS, "every check has its say, in order");
        Self { status, checks }
    }

    #[track_caller]
    fn on(database: &Database) -> Self {
        Self::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url()))
    }

    #[track_caller]
    fn through(proxy: &Proxy, database: &Database) -> Self {
        Self::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url_through(proxy.port())))
    }

    fn verdict(&self, check: &str) -> Vec<&str> {
        let of = self.checks.iter().filter(|one| one["check"] == check);
        of.filter_map(|one| one["verdict"].as_str()).collect()
    }

    /// Asserts that one finding of `check` has this verdict and tells this fact; returns its remedy.
    #[track_caller]
    fn tells(&self, check: &str, verdict: &str, fact: &str) -> String {
        let found = self.checks.iter().find(|one| {
            one["check"] == check
                && one["verdict"] == verdict
                && one["fact"].as_str().is_some_and(|text| text.contains(fact))
        });
        let found = found.unwrap_or_else(|| panic!("no {verdict} {check} {fact:?} in {self:#?}"));
        found["remedy"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that nothing is wrong but what `except` names, and what a busy machine may bring.
    #[track_caller]
    fn are_good_except(&self, except: &[&str]) {
        for check in CHECKS {
            let may_be = except.contains(&check) || ["round-trip", "connections"].contains(&check);
            assert!(
                may_be || self.verdict(check) == ["ok"],
                "{check} in {self:#?}"
            );
        }
    }
}

/// A database with dlock's tables, whose account may do everything.
#[track_caller]
fn set_up(server: &Server) -> Database {
    let database = server.database("doctor");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    database
}

#[track_caller]
fn execute(database: &Database, statement: &str) {
    database
        .admin_conn()
        .query_drop(statement)
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// What is in the database: tables, and the rows of each.
fn contents(database: &Database) -> Vec<(String, u64)> {
    let mut admin = database.admin_conn();
    let tables: Vec<String> = admin.query("SHOW TABLES").expect("root may");
    let count = |table: String| {
        let rows = admin
            .query_first(format!("SELECT COUNT(*) FROM {table}"))
            .expect("root may");
        (table, rows.expect("a number"))
    };
    tables.into_iter().map(count).collect()
}

/// An account on `database` that may do nothing yet.
fn stranger(database: &Database, name: &str) -> Database {
    let user = format!("{name}_{}", database.user);
    let password = &database.password;
    execute(
        database,
        &format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
    );
    let mut account = database.clone();
    account.user = user;
    account
}
