//! Tests that the output in the section "A lock is stuck" of README.md and dlock(7) matches real runs.
//!
//! - `scenes` has one function for each scenario: the typed lines, their hosts and the expected results.
//! - `place` simulates hosts with names of their own, on a real server.
//! - `shape` normalizes output, and `document` finds the blocks in the documents.
//!
//! Every scenario runs on both servers, which must show the same. The documents contain the output of one real run, and
//! each later run must match it after normalization. With `DLOCK_UPDATE=1` in the environment, the test writes all
//! blocks of one run to the documents if a block is stale.

mod document;
mod fake_hosts;
mod normalize;
mod scenarios;

use std::thread;

use self::document::DOCUMENTS;
use self::normalize::shapes;
use crate::servers::Flavour;

/// The command that updates the blocks.
const UPDATE: &str = "DLOCK_UPDATE=1 cargo test --locked --test it walkthrough";

/// The output of a scenario, with its name in the documents.
struct Block {
    name: &'static str,
    text: String,
}

/// Runs all scenarios at once, because they spend most of their time waiting, and returns their blocks.
fn run_all(flavour: Flavour) -> Vec<Block> {
    thread::scope(|scope| {
        let threads = scenarios::ALL.map(|scene| scope.spawn(move || scene(flavour)));
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
    let wanted = shapes(mariadb.iter().map(|block| block.text.as_str()));
    let others = shapes(mysql.iter().map(|block| block.text.as_str()));
    for ((block, wanted), other) in mariadb.iter().zip(&wanted).zip(&others) {
        assert_eq!(wanted, other, "{}: MariaDB and MySQL differ", block.name);
    }
    let mut names: Vec<&str> = mariadb.iter().map(|block| block.name).collect();
    names.sort_unstable();
    let [readme, manual] = &DOCUMENTS;
    assert_eq!(manual.names(), names, "{}", manual.path);
    let shown = readme.names();
    assert!(shown.len() > 3, "{} shows only {shown:?}", readme.path);
    for name in shown {
        assert!(names.contains(&&*name), "{}: {name}", readme.path);
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
        "the documents differ from the run:\n{}\nupdate them with:\n  {UPDATE}",
        stale.join("\n")
    );
}
