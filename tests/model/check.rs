//! Runs the checker, prints the size of the search, and returns the findings.

use std::thread;
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

/// The failed properties and the possible events that a search has found, by name, each with the steps that lead to it.
type Findings = Vec<(&'static str, Vec<String>)>;

/// Searches all states of `run`. Asserts that no property fails and that all events in `possible` are found. Stops at the
/// first property that fails, and prints the shortest steps to it.
#[track_caller]
pub(crate) fn assert_holds(run: Run, possible: &'static [&'static str]) {
    let run = run.events(possible);
    let found = findings(&run, builder(run, HasDiscoveries::AnyFailures).spawn_bfs());
    // A search stops at the first failure and may then miss possible events, so failures are reported first.
    for property in run.properties() {
        let failed = found.iter().find(|(name, _)| *name == property.name);
        if let (Some((name, steps)), Expectation::Always) = (failed, property.expectation) {
            panic!("failed property: {name}\n{}", steps.join(" "))
        }
    }
    for name in possible {
        let is_found = found.iter().any(|(found, _)| found == name);
        assert!(is_found, "event not found: {name}");
    }
}

/// Asserts that all properties in `failing` fail in `run`, and prints the steps to each failure. The steps may be long, so
/// the search goes into the depth, which takes a tenth of the time.
#[track_caller]
pub(crate) fn assert_broken(run: Run, failing: &[&'static str]) {
    let end = HasDiscoveries::AllOf(failing.iter().copied().collect());
    let found = findings(&run, builder(run, end).spawn_dfs());
    for property in failing {
        let Some((_, steps)) = found.iter().find(|(found, _)| found == property) else {
            let found: Vec<_> = found.iter().map(|(name, _)| *name).collect();
            panic!("property did not fail: {property}; found: {found:?}; {run:?}")
        };
        println!("  failed after {} steps: {}", steps.len(), steps.join(" "));
    }
}

fn builder(run: Run, end: HasDiscoveries) -> CheckerBuilder<Run> {
    run.checker().threads(THREADS).finish_when(end)
}

fn findings(run: &Run, checker: impl Checker<Run>) -> Findings {
    let start = Instant::now();
    let checker = checker.join();
    let test = thread::current();
    println!(
        "{}, {:?} and {:?}: {} states, {} distinct states, depth {}, {:.1} s",
        test.name().unwrap_or_default(),
        run.variant,
        run.rules,
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    let found = checker.discoveries().into_iter().map(|(name, path)| {
        let steps = path.into_actions().into_iter();
        (name, steps.map(|step| format!("{step:?}")).collect())
    });
    found.collect()
}
