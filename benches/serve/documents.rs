//! The time of the large documents, including the query, because each request comes after the interval.

use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::{mebibytes, millis, percentile};

use crate::{ACTIONS, AWAITED, serve};

/// Target for `/metrics`.
const LIMIT: Duration = Duration::from_millis(200);

/// Time between two requests, longer than the interval of the page, so that each request needs a query.
const PAUSE: Duration = Duration::from_millis(600);

/// Measures and writes the section.
pub(crate) fn section(page: &mut Page, population: &Population, rounds: usize) {
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
    page.table(&["path", "median", "p90", "size"], &rows);
    page.item(format_args!(
        "`/metrics` within {LIMIT:?}: {}",
        verdict(medians[0] <= LIMIT)
    ));
}
