//! Measures whether a thousand contenders are all served in order, and how long that takes beyond their commands.

use std::path::Path;
use std::time::Duration;

use crate::competitor::Competitor;
use crate::markdown::{Page, verdict};
use crate::order::{note, whole};
use crate::sample::{inversions, millis, percentile, seconds};
use crate::waiters::{Crowd, names};

const CONTENDERS: u32 = 1000;
const PACE: Duration = Duration::from_millis(20);
const HOLD: Duration = Duration::from_millis(2);

pub(crate) fn section(page: &mut Page, dlock: &[Competitor; 2], folder: &Path) {
    page.section(
        "A thousand",
        &format!(
            "{CONTENDERS} contenders are started {} ms apart behind a holder, which then ends; each holds for {} ms.",
            PACE.as_millis(),
            HOLD.as_millis()
        ),
    );
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for competitor in dlock {
        let mut crowd = Crowd::behind(competitor, folder);
        crowd.join_in_turn(CONTENDERS, PACE, HOLD);
        crowd.gathered();
        let places = competitor.site().places(&crowd.action);
        let outcome = crowd.let_go();
        let served = outcome.served();
        let gaps: Vec<Duration> = outcome.gaps().into_iter().flatten().collect();
        let held: Duration = outcome
            .marks
            .iter()
            .skip(1)
            .map(|mark| mark.end.saturating_sub(mark.start))
            .sum();
        notes.extend(note(competitor, &outcome));
        let by_place = inversions(&places, &served);
        rows.push(vec![
            competitor.name(),
            served.len().to_string(),
            outcome.failed.to_string(),
            inversions(&names(CONTENDERS), &served).to_string(),
            by_place.to_string(),
            seconds(whole(&outcome)),
            seconds(held),
            millis(percentile(&gaps, 50)),
            millis(percentile(&gaps, 99)),
            verdict(served.len() == CONTENDERS as usize && outcome.failed == 0).to_owned(),
            verdict(by_place == 0).to_owned(),
        ]);
    }
    page.table(
        &[
            "competitor",
            "served",
            "failed",
            "inversions",
            "by place",
            "whole line, s",
            "sum of the holds, s",
            "gap p50, ms",
            "gap p99, ms",
            "all served",
            "in order",
        ],
        &rows,
    );
    for note in notes {
        page.item(note);
    }
}
