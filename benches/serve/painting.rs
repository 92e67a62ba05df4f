//! The time that the browser needs for the page: from the first overview to the frame that shows it, and from an overview
//! with changes to the next frame.

use std::thread;
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::percentile;
use testkit::browser::{Browser, Look};
use testkit::cli_runner::eventually;

use crate::{ACTIONS, AWAITED, HELD, serve};

const FIRST_LIMIT: f64 = 300.0;
const UPDATE_LIMIT: f64 = 50.0;

/// Number of page loads, and of updates.
const LOADS: usize = 10;
const UPDATES: usize = 10;

pub(crate) fn section(page: &mut Page, population: &Population) {
    page.section(
        "The browser",
        &format!(
            "Chromium without a window and without a graphics processor, {ACTIONS} actions, {} waiters. In each update, \
             {HELD} holders have renewed their leases. The times begin when the page gets the first bytes of the overview, and end with the \
             script, or with the frame that shows the result.",
            2 * AWAITED
        ),
    );
    let (_dlock, address) = serve(population, "1s");
    let browser = Browser::start(Look::WIDE);
    let measure = |name: &str| {
        let script = format!(
            "return performance.getEntriesByName('{name}').map((entry) => entry.duration)[0] || 0"
        );
        browser.run(&script).as_f64().expect("a number")
    };
    let mut first = Vec::new();
    for _ in 0..LOADS {
        browser.open("about:blank");
        browser.open(&address.url());
        browser.shows("#summary", "locks");
        eventually("the frame is drawn", || measure("frame") > 0.0);
        first.push((measure("update"), measure("frame")));
    }
    let mut updates = Vec::new();
    for _ in 0..UPDATES {
        renew_all(population);
        let number = browser.run("return page.updates");
        eventually("the page is updated", || {
            browser.run("return page.updates") != number
        });
        thread::sleep(Duration::from_millis(300));
        updates.push((measure("update"), measure("frame")));
    }
    let row = |name: &str, times: Vec<(f64, f64)>, limit: f64| {
        let (scripts, frames): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        let mut row = vec![name.to_owned()];
        for times in [&scripts, &frames] {
            row.extend([50, 100].map(|part| format!("{:.1} ms", percentile(times, part))));
        }
        let verdict = verdict(percentile(&frames, 50) <= limit);
        row.push(format!("≤ {limit} ms: {verdict}"));
        row
    };
    let head = "overview | script, median | script, maximum | frame, median | frame, maximum | \
        target for the median frame";
    let rows = [
        row("first", first, FIRST_LIMIT),
        row("changes", updates, UPDATE_LIMIT),
    ];
    page.table(head, &rows);
}

/// Changes the records as if all holders had renewed their leases.
fn renew_all(population: &Population) {
    let statement = "UPDATE dlock_lock SET renewals=renewals+1,renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR WHERE owner_id IS NOT NULL";
    population.database.run(statement);
}
