//! `make bench` runs this benchmark. It measures the page of `dlock serve`: the documents and the browser with 10 000
//! actions and 1000 waiters, and a viewer beside 200 slow clients.
//!
//! The benchmark starts one MariaDB in `TMPDIR`, and writes Markdown to stdout and to `bench/serve.md` in the target folder.
//! It fails if a program fails, but not if a target is missed. Arguments select sections: `cargo bench --bench serve --
//! documents painting crowd`. Each document is requested `ROUNDS` times (30 by default).

mod crowd;
mod painting;

use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::{mebibytes, millis, percentile};
use testkit::bench::{rounds, sections};
use testkit::cli_runner::{Dlock, Running};
use testkit::http::Address;
use testkit::servers::{Flavour, Server};

/// Number of actions, of those that are held, and of those with two waiters.
const ACTIONS: u32 = 10_000;
const HELD: u32 = ACTIONS / 4;
const AWAITED: u32 = 500;

/// Target for `/metrics`.
const LIMIT: Duration = Duration::from_millis(200);

/// Time between two requests, longer than the interval of the page, so that each request needs a query.
const PAUSE: Duration = Duration::from_millis(600);

fn main() {
    let Some(sections) = sections(&["documents", "painting", "crowd"], &[]) else {
        return;
    };
    let mut page = Page::new("What the page of `dlock serve` costs", "serve");
    let server = Server::start(Flavour::MariaDb, &[]);
    let population = Population::new(&server, ACTIONS, HELD, AWAITED);
    for section in sections {
        match section {
            "documents" => documents(&mut page, &population, rounds(30)),
            "painting" => painting::section(&mut page, &population),
            _ => crowd::section(&mut page, &population),
        }
        page.publish();
    }
}

/// Measures the large documents. The times include the query, because each request comes after the interval.
fn documents(page: &mut Page, population: &Population, rounds: usize) {
    page.section(
        "Documents",
        &format!(
            "MariaDB, {ACTIONS} actions, {} waiters. The times include the query.",
            2 * AWAITED
        ),
    );
    let (_dlock, address) = serve(population, "500ms");
    let (mut rows, mut medians) = (Vec::new(), Vec::new());
    for path in ["/metrics", "/status.json", "/overview.json"] {
        let mut times = Vec::new();
        let mut size = 0;
        for _ in 0..rounds {
            thread::sleep(PAUSE);
            let start = Instant::now();
            let response = address.request("GET", path, &["Host: localhost"]);
            times.push(start.elapsed());
            assert_eq!(response.status, 200, "{path}");
            size = response.body.len();
        }
        let median = percentile(&times, 50);
        rows.push(vec![
            format!("`{path}`"),
            format!("{} ms", millis(median)),
            format!("{} ms", millis(percentile(&times, 90))),
            format!("{} MiB", mebibytes(size as u64)),
        ]);
        medians.push(median);
    }
    page.table("path | median | p90 | size", &rows);
    let verdict = verdict(medians[0] <= LIMIT);
    page.item(format_args!("`/metrics` within {LIMIT:?}: {verdict}"));
}

/// Starts `dlock serve`, whose queries are at least `interval` apart, and returns its address.
fn serve(population: &Population, interval: &str) -> (Running, Address) {
    let options = ["serve", "--listen=127.0.0.1:0", "--interval", interval];
    let running = Dlock::on(&population.database, options).start();
    running.wait_for_output("listening on http://");
    let printed = running.stderr_so_far();
    let (_, rest) = printed.split_once("http://").expect("an address");
    let (address, _) = rest.split_once('/').expect("the end of the address");
    let address = Address::Tcp(address.parse().expect("an address"));
    (running, address)
}
