//! Measures whether contenders are served in the order of their arrival. 200 contenders start, 20 ms apart.
//!
//! If the section `waiting` is selected, the cost of the same contenders is measured while they wait.

use std::path::Path;
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{inversions, millis, percentile, seconds};

use crate::competitor::Competitor;
use crate::waiters::{Crowd, Outcome, names};
use crate::waiting;

pub(crate) const CONTENDERS: u32 = 200;
const PACE: Duration = Duration::from_millis(20);
const HOLD: Duration = Duration::from_millis(1);

pub(crate) fn section(
    page: &mut Page,
    dlock: &[Competitor; 2],
    etcd: &Competitor,
    waits: bool,
    folder: &Path,
) {
    let crowds = dlock.each_ref().map(|competitor| {
        let mut crowd = Crowd::start(competitor, folder);
        crowd.add_all(CONTENDERS, PACE, HOLD);
        crowd.wait_until_queued();
        crowd
    });
    let costs = waits.then(|| {
        let [maria, mysql] = &crowds;
        waiting::measure(&[(dlock[0].site(), maria), (dlock[1].site(), mysql)])
    });
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (competitor, crowd) in dlock.iter().zip(crowds) {
        let queued = competitor.site().queued_names(&crowd.action);
        let outcome = crowd.release();
        let by_position = inversions(&queued, &outcome.served());
        notes.extend(note(competitor, &outcome));
        rows.push(row(competitor, &outcome, &by_position.to_string()));
    }
    let mut crowd = Crowd::start(etcd, folder);
    crowd.add_all(CONTENDERS, PACE, HOLD);
    crowd.wait_until_queued();
    let outcome = crowd.release();
    notes.extend(note(etcd, &outcome));
    rows.push(row(etcd, &outcome, "–"));

    page.section(
        "Order",
        &format!(
            "{CONTENDERS} contenders are started {} ms apart while a holder has the lock. Then the holder ends, and \
             each contender holds the lock for {} ms. An inversion is a pair of contenders of which the later \
             one is served first. Inversions by position are relative to the order in `dlock_waiter`.",
            PACE.as_millis(),
            HOLD.as_millis()
        ),
    );
    page.table(
        &[
            "competitor",
            "served",
            "failed",
            "inversions",
            "by position",
            "total time, s",
            "gap p50, ms",
            "gap p99, ms",
            "exact order",
        ],
        &rows,
    );
    for note in notes {
        page.item(note);
    }
    if let Some(costs) = costs {
        waiting::section(page, &costs);
    }
}

fn row(competitor: &Competitor, outcome: &Outcome, by_position: &str) -> Vec<String> {
    let served = outcome.served();
    let inverted = inversions(&names(CONTENDERS), &served);
    let gaps: Vec<Duration> = outcome.gaps().into_iter().flatten().collect();
    let exact = served == names(CONTENDERS);
    vec![
        competitor.name(),
        served.len().to_string(),
        outcome.failed.to_string(),
        inverted.to_string(),
        by_position.to_owned(),
        seconds(total_time(outcome)),
        millis(percentile(&gaps, 50)),
        millis(percentile(&gaps, 99)),
        verdict(exact).to_owned(),
    ]
}

/// Returns the time from the end of the first holder's command to the end of the last holder's command.
pub(crate) fn total_time(outcome: &Outcome) -> Duration {
    let first = outcome
        .marks
        .first()
        .expect("the holder wrote its mark")
        .end;
    let last = outcome.marks.iter().map(|mark| mark.end).max();
    last.expect("the holder wrote its mark")
        .saturating_sub(first)
}

/// Returns a note about overlaps, failures and unexpected messages. None if there is nothing to report.
pub(crate) fn note(competitor: &Competitor, outcome: &Outcome) -> Option<String> {
    let overlaps = outcome.gaps().iter().filter(|gap| gap.is_none()).count();
    let Outcome {
        failed, unexpected, ..
    } = outcome;
    (overlaps + failed + unexpected.len() > 0).then(|| {
        format!(
            "{}: {overlaps} overlaps, {failed} failures, {} unexpected lines on standard error: {:?}",
            competitor.name(),
            unexpected.len(),
            unexpected.first()
        )
    })
}
