//! Measures the time for which a lock is idle between two commands. 30 contenders hold the lock for 20 ms each.
//!
//! In each round, every competitor is measured once. The first competitor changes with each round, so other load of the
//! machine affects all competitors equally. On servers with slow commits, dlock is also measured without its hand-off.
//! The difference is the time that the hand-off saves.

use std::path::Path;
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};

use crate::competitor::Competitor;
use crate::waiters::{Crowd, Outcome};

const CONTENDERS: u32 = 30;
const HOLD: Duration = Duration::from_millis(20);

/// Number of commits that are timed on each server in each round.
const COMMITS: usize = 10;

/// The measurements of one competitor, with one list of gaps for each round.
#[derive(Default)]
pub(crate) struct Record {
    rounds: Vec<Vec<Duration>>,
    overlaps: usize,
    failed: usize,
    unexpected: Vec<String>,
    commits: Vec<Duration>,
}

impl Record {
    fn add(&mut self, outcome: Outcome) {
        let gaps = outcome.gaps();
        self.overlaps += gaps.iter().filter(|gap| gap.is_none()).count();
        self.rounds.push(gaps.into_iter().flatten().collect());
        self.failed += outcome.failed;
        self.unexpected.extend(outcome.unexpected);
    }

    /// Returns the gaps of all rounds.
    pub(crate) fn all(&self) -> Vec<Duration> {
        self.rounds.concat()
    }
}

/// Measures all competitors. The ratios are relative to the first of `competitors`.
pub(crate) fn section(page: &mut Page, competitors: &[&Competitor], rounds: usize, folder: &Path) {
    assert!(rounds > 0, "ROUNDS must be at least 1");
    let records = measure(competitors, rounds, folder);
    write(page, competitors, &records, rounds);
}

/// Measures all competitors once in each round.
pub(crate) fn measure(competitors: &[&Competitor], rounds: usize, folder: &Path) -> Vec<Record> {
    let mut records: Vec<Record> = competitors.iter().map(|_| Record::default()).collect();
    for round in 0..rounds {
        for turn in 0..competitors.len() {
            let index = (turn + round) % competitors.len();
            let (competitor, record) = (competitors[index], &mut records[index]);
            let mut crowd = Crowd::start(competitor, folder);
            for _ in 0..CONTENDERS {
                crowd.add(HOLD);
            }
            crowd.wait_until_queued();
            record.add(crowd.release());
            if let Competitor::Dlock(site) | Competitor::WithoutHandOff(site) = competitor {
                record.commits.extend((0..COMMITS).map(|_| site.commit()));
            }
        }
    }
    records
}

fn write(page: &mut Page, competitors: &[&Competitor], records: &[Record], rounds: usize) {
    page.section(
        "Hand-over",
        &format!(
            "Times from the end of one command to the start of the next, recorded by the commands, in milliseconds. \
             {CONTENDERS} contenders wait, and each holds the lock for {} ms. In each of {rounds} rounds, each \
             competitor is measured once. The ratio compares the medians of each round with those of `etcdctl lock`. \
             Delayed commits wait 5 ms for other commits (`binlog_group_commit_sync_delay`, \
             `binlog_commit_wait_usec`). MariaDB ends this wait when another transaction needs the row. On a slow \
             disk, each sync takes 5 ms longer.",
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
        let [minimum, low, median, high, p99, maximum] =
            [0, 10, 50, 90, 99, 100].map(|part| percentile(&gaps, part));
        let [ratio_minimum, ratio, ratio_maximum] =
            [0, 50, 100].map(|part| percentile(&ratios, part));
        let tail = p99.as_secs_f64() / median.as_secs_f64();
        let verdicts = match competitor {
            Competitor::Dlock(site) if !site.is_slow() => {
                let reference = percentile(&records[0].all(), 50);
                format!("{}, {}", verdict(median <= reference), verdict(tail <= 2.0))
            }
            _ => "–".to_owned(),
        };
        rows.push(vec![
            competitor.name(),
            gaps.len().to_string(),
            millis(minimum),
            millis(low),
            format!("**{}**", millis(median)),
            millis(high),
            millis(p99),
            millis(maximum),
            format!("{tail:.2}"),
            format!("{ratio:.2} ({ratio_minimum:.2} to {ratio_maximum:.2})"),
            verdicts,
        ]);
    }
    page.table(
        &[
            "competitor",
            "gaps",
            "minimum",
            "p10",
            "p50",
            "p90",
            "p99",
            "maximum",
            "p99/p50",
            "ratio of p50",
            "p50, p99",
        ],
        &rows,
    );
    for (competitor, record) in competitors.iter().zip(records) {
        if let Competitor::Dlock(site) = competitor {
            page.item(format_args!(
                "{}: an UPDATE of one row and its commit take {} ms (median), {} ms (p90).",
                site.name(),
                millis(percentile(&record.commits, 50)),
                millis(percentile(&record.commits, 90)),
            ));
        }
        let Record {
            overlaps,
            failed,
            unexpected,
            ..
        } = record;
        if *overlaps + failed + unexpected.len() > 0 {
            page.item(format_args!(
                "{}: {overlaps} overlaps, {failed} failures, {} lines on standard error: {:?}",
                competitor.name(),
                unexpected.len(),
                unexpected.first(),
            ));
        }
    }
    page.item("Target: p50 is at most that of `etcdctl lock`, and p99 is at most twice p50.");
    saved_by_hand_off(page, competitors, records);
}

/// Writes the time that the hand-off saves on each server that was measured with and without the hand-off.
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
            "{}: the hand-off saves {:.2} ms of p50 and {:.2} ms of p99. Target with slow commits: 4 ms of p50, {}.",
            site.name(),
            saved[0],
            saved[1],
            verdict(!site.is_slow() || saved[0] >= 4.0),
        ));
    }
}
