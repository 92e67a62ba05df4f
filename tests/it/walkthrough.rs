//! Tests that the output in the section "A lock is stuck" of docs/operations.md and dlock-operations(7) matches real runs.
//!
//! - `scenarios` has one function for each scenario, with the typed lines, their hosts and the expected results.
//! - `fake_hosts` simulates hosts with different names, which use a real server.
//! - `normalize` makes the outputs of two runs comparable, and `document` finds the blocks in the documents.
//!
//! The documents contain the output of one real run, and the output of each later run must match that run after
//! normalization. If `DLOCK_UPDATE=1` is set in the environment and a block is out of date, the test writes all blocks of
//! the current run to the documents.

mod document;
mod fake_hosts;
mod normalize;
mod scenarios;

use std::thread;

use testkit::servers::Flavour;

use self::document::DOCUMENTS;

/// The command that updates the blocks in the documents.
const UPDATE: &str = "DLOCK_UPDATE=1 cargo test --locked --test it walkthrough";

/// A part of the output of a scenario, with the name of its block in the documents.
struct Block {
    name: &'static str,
    text: String,
}

/// Runs all scenarios in parallel, because the scenarios mostly wait, and returns their blocks.
fn run_all(flavour: Flavour) -> Vec<Block> {
    thread::scope(|scope| {
        let threads = scenarios::ALL.map(|scenario| scope.spawn(move || scenario(flavour)));
        let blocks = threads.into_iter().flat_map(|thread| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        blocks.collect()
    })
}

#[test]
fn documented_output_matches_a_run() {
    let blocks = run_all(Flavour::of_this_test());
    let mut names: Vec<&str> = blocks.iter().map(|block| block.name).collect();
    names.sort_unstable();
    let [operations, manual] = &DOCUMENTS;
    assert_eq!(manual.names(), names, "{}", manual.path);
    let shown = operations.names();
    assert!(shown.len() > 3, "{}: only {shown:?}", operations.path);
    let unknown = shown.iter().find(|name| !names.contains(&name.as_str()));
    assert_eq!(unknown, None, "{}", operations.path);
    let stale = || -> Vec<String> {
        let each = DOCUMENTS.iter();
        each.flat_map(|document| document.stale(&blocks)).collect()
    };
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") && !stale().is_empty() {
        for document in &DOCUMENTS {
            document.write(&blocks);
        }
    }
    let stale = stale();
    assert!(
        stale.is_empty(),
        "the documents differ from the run:\n{}\nupdate the documents with:\n  {UPDATE}",
        stale.join("\n")
    );
}
