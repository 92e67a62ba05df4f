//! Runs the checker, prints the size of the search, and returns the findings.

use std::time::Instant;

use stateright::{Checker, CheckerBuilder, Expectation, HasDiscoveries, Model};

use crate::mutation::Run;
use crate::time::Tick;

/// Number of threads. The smallest machines on which the checker must be fast have two processors.
const THREADS: usize = 2;

/// Returns the size of a run: `whole` in `make model`, and otherwise `short`.
pub(crate) fn size<T>(whole: T, short: T) -> T {
    match std::env::var_os("DLOCK_WHOLE_MODEL") {
        Some(_) => whole,
        None => short,
    }
}

impl Run {
    /// Returns these parameters with `horizon` as the last tick, except in `make model`.
    pub(crate) fn until(self, horizon: Tick) -> Self {
        Self {
            horizon: size(self.horizon, horizon),
            ..self
        }
    }
}

/// The findings of a search: the failed properties and the possible events by name, each with the steps that lead to it.
pub(crate) struct Findings(Vec<(&'static str, Vec<String>)>);

/// Searches all states of `run`. Stops at the first property that fails, and finds the shortest steps to it.
pub(crate) fn check(name: &str, run: Run) -> Findings {
    findings(name, builder(run, HasDiscoveries::AnyFailures).spawn_bfs())
}

/// Asserts that all properties in `failing` fail in `run`, and prints the steps to each failure. The steps may be long, so
/// the search goes into the depth, which takes a tenth of the time.
pub(crate) fn assert_broken(name: &str, run: Run, failing: &[&'static str]) {
    let name = format!("{name}, {:?} and {:?}", run.variant, run.rules);
    let end = HasDiscoveries::AllOf(failing.iter().copied().collect());
    let Findings(found) = findings(&name, builder(run, end).spawn_dfs());
    for property in failing {
        let Some((_, steps)) = found.iter().find(|(found, _)| found == property) else {
            let found: Vec<_> = found.iter().map(|(name, _)| *name).collect();
            panic!("{name}: property did not fail: {property}; found: {found:?}")
        };
        println!("  failed after {} steps: {}", steps.len(), steps.join(" "));
    }
}

fn builder(run: Run, end: HasDiscoveries) -> CheckerBuilder<Run> {
    run.checker().threads(THREADS).finish_when(end)
}

fn findings(name: &str, checker: impl Checker<Run>) -> Findings {
    let start = Instant::now();
    let checker = checker.join();
    println!(
        "{name}: {} states, {} distinct states, depth {}, {:.1} s",
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
    /// Asserts that no property failed and that all events in `possible` were found.
    pub(crate) fn assert_holds(&self, possible: &[&str]) {
        let properties = Run::sound().properties();
        let is_property = |name: &str| {
            let mut properties = properties.iter();
            properties.any(|property| {
                property.name == name && property.expectation == Expectation::Always
            })
        };
        // A search stops at the first failure and may then miss possible events, so failures are reported first.
        if let Some((name, steps)) = self.0.iter().find(|(name, _)| is_property(name)) {
            panic!("failed property: {name}\n{}", steps.join(" "))
        }
        for name in possible {
            let is_found = self.0.iter().any(|(found, _)| found == name);
            assert!(is_found, "event not found: {name}");
        }
    }
}
