//! The time that the browser needs for the page: from the first overview to the frame that shows it, and from an overview
//! with changes to the next frame.

use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::percentile;
use testkit::browser::{Browser, Look};

use crate::running::Served;
use crate::{ACTIONS, AWAITED, HELD};

const FIRST_LIMIT: f64 = 300.0;
const UPDATE_LIMIT: f64 = 50.0;

/// Number of page loads, and of updates.
const LOADS: usize = 10;
const UPDATES: usize = 10;

/// Measures and writes the section.
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
    let served = Served::start(population, "1s");
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
        browser.open(&served.address.url());
        browser.shows("#summary", "locks");
        testkit::cli_runner::eventually("the frame is drawn", || measure("frame") > 0.0);
        first.push((measure("update"), measure("frame")));
    }
    let mut updates = Vec::new();
    for _ in 0..UPDATES {
        renew_all(population);
        let number = browser.run("return page.updates");
        testkit::cli_runner::eventually("the page is updated", || {
            browser.run("return page.updates") != number
        });
        thread::sleep(Duration::from_millis(300));
        updates.push((measure("update"), measure("frame")));
    }
    let median = |times: &[(f64, f64)], frame: bool| {
        let times: Vec<f64> = times
            .iter()
            .map(|(script, all)| if frame { *all } else { *script })
            .collect();
        (percentile(&times, 50), percentile(&times, 100))
    };
    let row = |name: &str, times: &[(f64, f64)]| {
        let (script, frame) = (median(times, false), median(times, true));
        let cell = |value: f64| format!("{value:.1} ms");
        vec![
            name.to_owned(),
            cell(script.0),
            cell(script.1),
            cell(frame.0),
            cell(frame.1),
        ]
    };
    page.table(
        &[
            "overview",
            "script, median",
            "script, maximum",
            "frame, median",
            "frame, maximum",
        ],
        &[row("first", &first), row("changes", &updates)],
    );
    page.item(format_args!(
        "first frame within {FIRST_LIMIT} ms: {}",
        verdict(median(&first, true).0 <= FIRST_LIMIT)
    ));
    page.item(format_args!(
        "update within {UPDATE_LIMIT} ms: {}",
        verdict(median(&updates, true).0 <= UPDATE_LIMIT)
    ));
    drop(browser);
    served.end();
}

/// Changes the records as if all holders had renewed their leases.
fn renew_all(population: &Population) {
    let statement = "UPDATE dlock_lock SET renewals=renewals+1,renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR WHERE owner_id IS NOT NULL";
    let done = population.database.admin_conn().query_drop(statement);
    done.expect("the rows are changed");
}
