//! Measures whether contenders are served in the order of their arrival: 200 contenders, 20 ms apart.
//!
//! If the section `waiting` is selected, the same contenders are left waiting for a while and their cost is measured.

use std::path::Path;
use std::time::Duration;

use crate::competitor::Competitor;
use crate::markdown::{Page, verdict};
use crate::sample::{inversions, millis, percentile, seconds};
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
    let gathered = dlock.each_ref().map(|competitor| {
        let mut crowd = Crowd::behind(competitor, folder);
        crowd.join_in_turn(CONTENDERS, PACE, HOLD);
        crowd.gathered();
        crowd
    });
    let costs = waits.then(|| {
        let [maria, mysql] = &gathered;
        waiting::measure(&[(dlock[0].site(), maria), (dlock[1].site(), mysql)])
    });
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (competitor, crowd) in dlock.iter().zip(gathered) {
        let places = competitor.site().places(&crowd.action);
        let outcome = crowd.let_go();
        let by_place = inversions(&places, &outcome.served());
        notes.extend(note(competitor, &outcome));
        rows.push(row(competitor, &outcome, &by_place.to_string()));
    }
    let mut crowd = Crowd::behind(etcd, folder);
    crowd.join_in_turn(CONTENDERS, PACE, HOLD);
    crowd.gathered();
    let outcome = crowd.let_go();
    notes.extend(note(etcd, &outcome));
    rows.push(row(etcd, &outcome, "–"));

    page.section(
        "Order",
        &format!(
            "{CONTENDERS} contenders are started {} ms apart behind a holder, which then ends; each holds for {} ms. An \
             inversion is a pair of them that is served the other way round than it was started (or, by place, than \
             it stood in `dlock_waiter`).",
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
            "by place",
            "whole line, s",
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

fn row(competitor: &Competitor, outcome: &Outcome, by_place: &str) -> Vec<String> {
    let served = outcome.served();
    let inverted = inversions(&names(CONTENDERS), &served);
    let gaps: Vec<Duration> = outcome.gaps().into_iter().flatten().collect();
    let exact = served == names(CONTENDERS);
    vec![
        competitor.name(),
        served.len().to_string(),
        outcome.failed.to_string(),
        inverted.to_string(),
        by_place.to_owned(),
        seconds(whole(outcome)),
        millis(percentile(&gaps, 50)),
        millis(percentile(&gaps, 99)),
        verdict(exact).to_owned(),
    ]
}

/// Returns the time from the end of the first holder to the end of the last one.
pub(crate) fn whole(outcome: &Outcome) -> Duration {
    let first = outcome
        .marks
        .first()
        .expect("the holder wrote its mark")
        .end;
    let last = outcome.marks.iter().map(|mark| mark.end).max();
    last.expect("the holder wrote its mark")
        .saturating_sub(first)
}

/// Returns a note about overlaps, failures and unexpected messages. None if there were none.
pub(crate) fn note(competitor: &Competitor, outcome: &Outcome) -> Option<String> {
    let overlaps = outcome.gaps().iter().filter(|gap| gap.is_none()).count();
    let Outcome { failed, noise, .. } = outcome;
    (overlaps + failed + noise.len() > 0).then(|| {
        format!(
            "{}: {overlaps} overlaps, {failed} failures, {} unexpected lines on standard error: {:?}",
            competitor.name(),
            noise.len(),
            noise.first()
        )
    })
}
