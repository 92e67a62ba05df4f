//! "A lock is stuck" in README.md and dlock(7): what it shows is what happens.
//!
//! - `scenes` is the list of what is typed, where, and what must come of it, one function a story
//! - `place` is where it is typed: machines with names of their own, on a real server
//! - `shape` is what two runs have in common, `document` where the blocks stand in the documents
//!
//! All is run on both servers, which must show the same. What a document shows is a real run, of
//! which each further run must have the shape. With `DLOCK_UPDATE=1` in the environment the documents
//! are written instead, all blocks from one run, if one of them is stale.

mod document;
mod place;
mod scenes;
mod shape;

use std::thread;

use self::document::DOCUMENTS;
use self::shape::shapes;
use crate::servers::Flavour;

/// What writes the blocks anew.
const UPDATE: &str = "DLOCK_UPDATE=1 cargo test --locked --test it walkthrough";

/// What a story shows under a name.
struct Block {
    name: &'static str,
    text: String,
}

/// All stories, told at once: most of each is waiting.
fn told(flavour: Flavour) -> Vec<Block> {
    thread::scope(|scope| {
        let telling = scenes::ALL.map(|scene| scope.spawn(move || scene(flavour)));
        let mut blocks = Vec::new();
        for story in telling {
            match story.join() {
                Ok(told) => blocks.extend(told),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        blocks
    })
}

#[test]
fn what_is_shown_of_a_stuck_lock_is_what_happens_on_each_server() {
    let [mariadb, mysql] = thread::scope(|scope| {
        let both = Flavour::ALL.map(|flavour| scope.spawn(move || told(flavour)));
        both.map(|one| match one.join() {
            Ok(blocks) => blocks,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    let wanted = shapes(mariadb.iter().map(|block| block.text.as_str()));
    let others = shapes(mysql.iter().map(|block| block.text.as_str()));
    for ((block, wanted), other) in mariadb.iter().zip(&wanted).zip(&others) {
        assert_eq!(wanted, other, "{}: MariaDB's and MySQL's", block.name);
    }
    let mut names: Vec<&str> = mariadb.iter().map(|block| block.name).collect();
    names.sort_unstable();
    for document in &DOCUMENTS {
        assert_eq!(document.names(), names, "{}", document.path);
    }
    let stale = || -> Vec<String> {
        let each = DOCUMENTS.iter();
        each.flat_map(|document| document.stale(&mariadb, &wanted))
            .collect()
    };
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") && !stale().is_empty() {
        for document in &DOCUMENTS {
            document.write(&mariadb);
        }
    }
    let stale = stale();
    assert!(
        stale.is_empty(),
        "not what happens:\n{}\nwrite it anew with:\n  {UPDATE}",
        stale.join("\n")
    );
}
