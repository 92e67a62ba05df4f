//! Measures whether a thousand contenders are all served in order, and how much time is needed in addition to the run
//! times of their commands.

use std::path::Path;
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{inversions, millis, percentile, seconds};

use crate::competitor::Competitor;
use crate::order::{note, total_time};
use crate::waiters::{Crowd, names};

const CONTENDERS: u32 = 1000;
const PACE: Duration = Duration::from_millis(20);
const HOLD: Duration = Duration::from_millis(2);

pub(crate) fn section(page: &mut Page, dlock: &[Competitor; 2], folder: &Path) {
    page.section(
        "A thousand contenders",
        &format!(
            "{CONTENDERS} contenders are started {} ms apart while a holder has the lock. Then the holder ends, and \
             each contender holds the lock for {} ms.",
            PACE.as_millis(),
            HOLD.as_millis()
        ),
    );
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for competitor in dlock {
        let mut crowd = Crowd::start(competitor, folder);
        crowd.add_all(CONTENDERS, PACE, HOLD);
        crowd.wait_until_queued();
        let queued = competitor.site().queued_names(&crowd.action);
        let outcome = crowd.release();
        let served = outcome.served();
        let gaps: Vec<Duration> = outcome.gaps().into_iter().flatten().collect();
        let held: Duration = outcome
            .marks
            .iter()
            .skip(1)
            .map(|mark| mark.end.saturating_sub(mark.start))
            .sum();
        notes.extend(note(competitor, &outcome));
        let by_position = inversions(&queued, &served);
        rows.push(vec![
            competitor.name(),
            served.len().to_string(),
            outcome.failed.to_string(),
            inversions(&names(CONTENDERS), &served).to_string(),
            by_position.to_string(),
            seconds(total_time(&outcome)),
            seconds(held),
            millis(percentile(&gaps, 50)),
            millis(percentile(&gaps, 99)),
            verdict(served.len() == CONTENDERS as usize && outcome.failed == 0).to_owned(),
            verdict(by_position == 0).to_owned(),
        ]);
    }
    page.table(
        &[
            "competitor",
            "served",
            "failed",
            "inversions",
            "by position",
            "total time, s",
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
