//! Runs the checker, prints how far it got, and says what it found.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::variant::Run;

/// As many as the machines that it has to be quick on have processors.
const THREADS: usize = 2;

/// What a run came to: the names of the claims that failed and of the events that were found
/// possible, each with the steps that lead there.
pub(crate) struct Findings(Vec<(&'static str, Vec<String>)>);

/// Tries everything that can happen in `run`, until a claim fails that should hold.
pub(crate) fn check(name: &str, run: Run) -> Findings {
    search(name, run, HasDiscoveries::AnyFailures)
}

/// Searches `run` for a failure of `claim`.
pub(crate) fn search_for(claim: &'static str, name: &str, run: Run) -> Findings {
    search(name, run, HasDiscoveries::AllOf([claim].into()))
}

fn search(name: &str, run: Run, end: HasDiscoveries) -> Findings {
    let start = Instant::now();
    let checker = run
        .checker()
        .threads(THREADS)
        .finish_when(end)
        .spawn_bfs()
        .join();
    println!(
        "{name}: {} states, {} of them distinct, {} steps deep, {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    let found = checker.discoveries().into_iter().map(|(name, path)| {
        let steps = path
            .into_actions()
            .into_iter()
            .map(|step| format!("{step:?}"));
        (name, steps.collect())
    });
    Findings(found.collect())
}

impl Findings {
    /// Nothing failed, and all of `possible` was found to happen.
    pub(crate) fn assert_holds(&self, possible: &[&str]) {
        let properties = crate::variant::Run::sound().properties();
        let is_claim = |name: &str| {
            let mut claims = properties.iter();
            claims.any(|claim| claim.name == name && claim.expectation == Expectation::Always)
        };
        // A search ends with the first failure, and what would have happened after it was not found.
        if let Some((name, steps)) = self.0.iter().find(|(name, _)| is_claim(name)) {
            panic!("not so: {name}\n{}", steps.join(" "))
        }
        for name in possible {
            let is_found = self.0.iter().any(|(found, _)| found == name);
            assert!(is_found, "never happens: {name}");
        }
    }

    /// The claim `name` failed.
    pub(crate) fn assert_fails(&self, name: &str) {
        let Some((_, steps)) = self.0.iter().find(|(found, _)| *found == name) else {
            let found: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
            panic!("holds: {name}; found: {found:?}")
        };
        println!("  fails in {} steps: {}", steps.len(), steps.join(" "));
    }
}
