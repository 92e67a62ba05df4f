//! `make bench` runs this benchmark. It measures the page of `dlock serve`: the documents and the browser with 10 000
//! actions and 1000 waiters, and a viewer beside 200 slow clients.
//!
//! The benchmark starts one MariaDB in `TMPDIR`, and writes Markdown to stdout and to `target/bench/serve.md`. The
//! benchmark fails if a program fails, but not if a target is missed. Each document is requested `ROUNDS` times (30 by
//! default).
//!
//! - `documents` measures `/metrics`, `/status.json` and `/overview.json`. `painting` measures the page in the `browser` of
//!   the tests.
//! - `crowd` measures a viewer beside slow clients.
//! - `running` starts `dlock serve`, and reads its memory.

mod crowd;
mod documents;
mod painting;
mod running;

use std::fs;
use std::path::Path;

use testkit::bench::markdown::Page;
use testkit::bench::population::Population;
use testkit::servers::{Flavour, Server};

/// Number of actions, of those that are held, and of those with two waiters.
const ACTIONS: u32 = 10_000;
const HELD: u32 = ACTIONS / 4;
const AWAITED: u32 = 500;

fn main() {
    // `cargo test --benches` also runs this program, but with an unoptimized dlock. The program then does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(30, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("a folder can be created in the target folder");
    let mut page = Page::new(
        "What the page of `dlock serve` costs",
        target.join("serve.md"),
    );
    let server = Server::start(Flavour::MariaDb, &[]);
    let large = Population::with_waiters(&server, ACTIONS, HELD, AWAITED);
    documents::section(&mut page, &large, rounds);
    page.publish();
    painting::section(&mut page, &large);
    page.publish();
    let small = Population::of(&server, 1000);
    crowd::section(&mut page, &[("1000", &small), ("10 000", &large)]);
    page.publish();
}
