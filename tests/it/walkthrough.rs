//! Tests that the output in the section "A lock is stuck" of docs/operations.md and dlock-operations(7) matches real runs.
//!
//! - `scenarios` has one function for each scenario, with the typed lines, their hosts and the expected results.
//! - `fake_hosts` simulates hosts with different names, which use a real server.
//! - `normalize` makes the outputs of two runs comparable, and `document` finds the blocks in the documents.
//!
//! Every scenario runs on both servers, and both runs must have the same output. The documents contain the output of
//! one real run, and the output of each later run must match that run after normalization. If `DLOCK_UPDATE=1` is set
//! in the environment and a block is out of date, the test writes all blocks of the current run to the documents.

mod document;
mod fake_hosts;
mod normalize;
mod scenarios;

use std::thread;

use testkit::servers::Flavour;

use self::document::DOCUMENTS;
use self::normalize::normalized;

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
        let mut blocks = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(found) => blocks.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        blocks
    })
}

#[test]
fn documented_output_matches_a_run_on_each_server() {
    let [mariadb, mysql] = thread::scope(|scope| {
        let both = Flavour::ALL.map(|flavour| scope.spawn(move || run_all(flavour)));
        both.map(|one| match one.join() {
            Ok(blocks) => blocks,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    let wanted = normalized(mariadb.iter().map(|block| block.text.as_str()));
    let others = normalized(mysql.iter().map(|block| block.text.as_str()));
    for ((block, wanted), other) in mariadb.iter().zip(&wanted).zip(&others) {
        assert_eq!(wanted, other, "{}: MariaDB and MySQL differ", block.name);
    }
    let mut names: Vec<&str> = mariadb.iter().map(|block| block.name).collect();
    names.sort_unstable();
    let [operations, manual] = &DOCUMENTS;
    assert_eq!(manual.names(), names, "{}", manual.path);
    let shown = operations.names();
    assert!(
        shown.len() > 3,
        "{} contains only {shown:?}",
        operations.path
    );
    for name in shown {
        assert!(names.contains(&&*name), "{}: {name}", operations.path);
    }
    let stale = || -> Vec<String> {
        let each = DOCUMENTS.iter();
        each.flat_map(|document| document.stale(&mariadb)).collect()
    };
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") && !stale().is_empty() {
        for document in &DOCUMENTS {
            document.write(&mariadb);
        }
    }
    let stale = stale();
    assert!(
        stale.is_empty(),
        "the documents differ from the run:\n{}\nupdate the documents with:\n  {UPDATE}",
        stale.join("\n")
    );
}
