//! Tests that `dlock doctor` finds problems of the server, the account and the tables, and prints fixes that work.

mod connect;
mod grants;
mod output;
mod server;
mod session_user;
mod tables;

use serde_json::Value;
use testkit::cli_runner::Dlock;
use testkit::servers::Database;

/// The names of all checks, in the order in which doctor reports them.
const CHECKS: &str = "processes address connect tls login database server cluster proxy session \
                      writes grants tables session-user named-locks durability replication clock \
                      round-trip connections";

#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) status: i32,
    checks: Vec<Value>,
}

impl Findings {
    #[track_caller]
    pub(crate) fn of(dlock: Dlock) -> Self {
        let outcome = dlock.args(["doctor", "--json"]).run();
        assert_eq!(outcome.stderr, "", "{outcome:#?}");
        let document = outcome.json();
        let status = outcome.status.expect("dlock exits without a signal");
        assert_eq!(document["status"], status, "{document}");
        let checks = document["checks"].as_array().expect("a list").clone();
        for finding in &checks {
            let has_advice = ["why", "fix"].map(|field| finding[field].is_string());
            let is_wrong = finding["status"] == "warn" || finding["status"] == "fail";
            assert_eq!(has_advice, [is_wrong; 2], "{finding}");
        }
        let names = checks.iter().filter_map(|one| one["check"].as_str());
        // This check is reported only with several hosts.
        let mut names: Vec<&str> = names.filter(|name| *name != "hosts").collect();
        names.dedup();
        assert_eq!(names.join(" "), CHECKS, "every check is reported, in order");
        Self { status, checks }
    }

    #[track_caller]
    fn on(database: &Database) -> Self {
        Self::at(&database.url())
    }

    #[track_caller]
    pub(crate) fn at(url: &str) -> Self {
        Self::of(Dlock::new([""; 0]).env("DLOCK_URL", url))
    }

    pub(crate) fn status(&self, check: &str) -> Vec<&str> {
        let of = self.checks.iter().filter(|one| one["check"] == check);
        of.filter_map(|one| one["status"].as_str()).collect()
    }

    /// Asserts that a finding of `check` has the status `status` and a fact that contains `fact`. Returns the fix of
    /// the finding, or an empty string if the finding has no fix.
    #[track_caller]
    pub(crate) fn reports(&self, check: &str, status: &str, fact: &str) -> String {
        let mut of = self.checks.iter().filter(|one| one["check"] == check);
        let has_fact = |one: &&Value| one["fact"].as_str().is_some_and(|it| it.contains(fact));
        let found = of.find(|one| one["status"] == status && has_fact(one));
        let found = found.unwrap_or_else(|| panic!("no {status} {check} {fact:?} in {self:#?}"));
        found["fix"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn fact(&self, check: &str) -> &str {
        let found = self.checks.iter().find(|one| one["check"] == check);
        let fact = found.and_then(|one| one["fact"].as_str());
        fact.expect("every check is reported with a fact")
    }

    /// Asserts that all checks are ok. Ignores the checks in `except`, the check that needs an option, and the checks
    /// that depend on the load of the machine.
    #[track_caller]
    pub(crate) fn are_good_except(&self, except: &[&str]) {
        let may_differ = ["session-user", "round-trip", "connections"];
        let may_differ = [&may_differ, except].concat();
        for check in CHECKS.split(' ').filter(|it| !may_differ.contains(it)) {
            assert_eq!(self.status(check), ["ok"], "{check} in {self:#?}");
        }
    }
}

/// Returns the tables of the database with their row counts.
fn contents(database: &Database) -> Vec<(String, u64)> {
    let tables: Vec<String> = database.rows("SHOW TABLES");
    let count = |table: &String| database.value(format!("SELECT COUNT(*) FROM {table}"));
    let counts: Vec<u64> = tables.iter().map(count).collect();
    tables.into_iter().zip(counts).collect()
}
