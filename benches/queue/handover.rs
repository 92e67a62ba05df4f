//! The time for which the lock is idle between two commands: 30 contenders, 20 ms each.
//!
//! In each round every lock is measured once, one after the other and beginning with another lock each time, so that
//! other load of the machine affects all of them equally. On servers whose commits take at least 5 ms longer, dlock is
//! also measured without its hand-off: the difference is the gain of the hand-off.

use std::path::Path;
use std::time::Duration;

use crate::competitor::Competitor;
use crate::markdown::{Page, verdict};
use crate::sample::{millis, percentile};
use crate::waiters::{Crowd, Outcome};

const CONTENDERS: u32 = 30;
const HOLD: Duration = Duration::from_millis(20);

/// Number of commits that are timed on each server in each round.
const COMMITS: usize = 10;

/// The measurements of one lock, with one list of gaps per round.
#[derive(Default)]
struct Record {
    rounds: Vec<Vec<Duration>>,
    overlaps: usize,
    failed: usize,
    noise: Vec<String>,
    commits: Vec<Duration>,
}

impl Record {
    fn add(&mut self, outcome: Outcome) {
        let gaps = outcome.gaps();
        self.overlaps += gaps.iter().filter(|gap| gap.is_none()).count();
        self.rounds.push(gaps.into_iter().flatten().collect());
        self.failed += outcome.failed;
        self.noise.extend(outcome.noise);
    }

    fn all(&self) -> Vec<Duration> {
        self.rounds.concat()
    }
}

/// Measures all locks. The first of `competitors` is the reference of the ratios.
pub(crate) fn section(page: &mut Page, competitors: &[&Competitor], rounds: usize, folder: &Path) {
    assert!(rounds > 0, "at least one round");
    let mut records: Vec<Record> = competitors.iter().map(|_| Record::default()).collect();
    for round in 0..rounds {
        for turn in 0..competitors.len() {
            let index = (turn + round) % competitors.len();
            let (competitor, record) = (competitors[index], &mut records[index]);
            let mut crowd = Crowd::behind(competitor, folder);
            for _ in 0..CONTENDERS {
                crowd.join(HOLD);
            }
            crowd.gathered();
            record.add(crowd.let_go());
            if let Competitor::Dlock(site) | Competitor::WithoutHandOff(site) = competitor {
                record.commits.extend((0..COMMITS).map(|_| site.commit()));
            }
        }
    }
    write(page, competitors, &records, rounds);
}

fn write(page: &mut Page, competitors: &[&Competitor], records: &[Record], rounds: usize) {
    page.section(
        "Hand-over",
        &format!(
            "From the end of one command to the start of the next, as the commands see it, in milliseconds. \
             {CONTENDERS} contenders wait, {} ms each; {rounds} rounds, in which each competitor has its turn; the ratio \
             is that of the medians, round by round, to `etcdctl lock`. Delayed commits wait 5 ms for others \
             (`binlog_group_commit_sync_delay`, `binlog_commit_wait_usec`; MariaDB ends the wait when another \
             transaction wants the row). On a slow disk each sync takes 5 ms more.",
            HOLD.as_millis()
        ),
    );
    let mut rows = Vec::new();
    for (competitor, record) in competitors.iter().zip(records) {
        let gaps = record.all();
        let medians = |record: &Record| -> Vec<f64> {
            let rounds = record.rounds.iter();
            rounds
                .map(|gaps| percentile(gaps, 50).as_secs_f64())
                .collect()
        };
        let ratios: Vec<f64> = medians(record)
            .iter()
            .zip(medians(&records[0]))
            .map(|(own, other)| own / other)
            .collect();
        let [least, low, middle, high, most, worst] =
            [0, 10, 50, 90, 99, 100].map(|part| percentile(&gaps, part));
        let [ratio_least, ratio, ratio_most] = [0, 50, 100].map(|part| percentile(&ratios, part));
        let tail = most.as_secs_f64() / middle.as_secs_f64();
        let verdicts = match competitor {
            Competitor::Dlock(site) if !site.is_slow() => {
                let reference = percentile(&records[0].all(), 50);
                format!("{}, {}", verdict(middle <= reference), verdict(tail <= 2.0))
            }
            _ => "–".to_owned(),
        };
        rows.push(vec![
            competitor.name(),
            gaps.len().to_string(),
            millis(least),
            millis(low),
            format!("**{}**", millis(middle)),
            millis(high),
            millis(most),
            millis(worst),
            format!("{tail:.2}"),
            format!("{ratio:.2} ({ratio_least:.2} to {ratio_most:.2})"),
            verdicts,
        ]);
    }
    page.table(
        &[
            "competitor",
            "gaps",
            "least",
            "p10",
            "p50",
            "p90",
            "p99",
            "most",
            "p99/p50",
            "ratio of p50",
            "p50, p99",
        ],
        &rows,
    );
    for (competitor, record) in competitors.iter().zip(records) {
        if let Competitor::Dlock(site) = competitor {
            page.item(format_args!(
                "{}: one UPDATE of one row with its commit takes {} ms (median), {} ms (p90).",
                site.name(),
                millis(percentile(&record.commits, 50)),
                millis(percentile(&record.commits, 90)),
            ));
        }
        let Record {
            overlaps,
            failed,
            noise,
            ..
        } = record;
        if *overlaps + failed + noise.len() > 0 {
            page.item(format_args!(
                "{}: {overlaps} overlaps, {failed} failures, {} lines on standard error: {:?}",
                competitor.name(),
                noise.len(),
                noise.first(),
            ));
        }
    }
    page.item("Target: p50 not above that of `etcdctl lock`, p99 not above twice its own p50.");
    saved_by_hand_off(page, competitors, records);
}

/// Writes the gain of the hand-off on each server that was measured with and without it.
fn saved_by_hand_off(page: &mut Page, competitors: &[&Competitor], records: &[Record]) {
    let pairs = competitors.iter().zip(records);
    for (without, slower) in pairs.clone() {
        let Competitor::WithoutHandOff(site) = without else {
            continue;
        };
        let mut with = pairs.clone().filter(
            |(competitor, _)| matches!(competitor, Competitor::Dlock(other) if other.name() == site.name()),
        );
        let (_, faster) = with
            .next()
            .expect("the site is also measured with the hand-off");
        let saved = [50, 99].map(|part| {
            let [slower, faster] = [slower, faster].map(|record| percentile(&record.all(), part));
            (slower.as_secs_f64() - faster.as_secs_f64()) * 1e3
        });
        page.item(format_args!(
            "{}: the hand-off saves {:.2} ms of p50, {:.2} ms of p99. Target with slow commits: 4 ms of p50, {}.",
            site.name(),
            saved[0],
            saved[1],
            verdict(!site.is_slow() || saved[0] >= 4.0),
        ));
    }
}
