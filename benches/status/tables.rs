//! Formats the tables with the measured values and the targets.

use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};
use testkit::bench::timing::Record;
use testkit::bench::traffic::Traffic;

use crate::site::{FEW, MANY, Site, Times};

/// Targets: the maximum ratio to the time of etcdctl, and the maximum ratio of the time with many actions to the time
/// with few actions. The number of held actions is the same.
const SHARE: f64 = 0.5;
const GROWTH: f64 = 1.5;

/// Maximum number of round trips after the login.
const REQUESTS: usize = 1;

/// The ratio of the times of two contestants.
struct Ratio {
    of_medians: f64,
    /// The p10, median and p90 of the ratios of all rounds.
    paired: [f64; 3],
}

impl Ratio {
    fn of(record: &Record, base: &Record) -> Self {
        let pairs = record.times.iter().zip(&base.times);
        let ratios: Vec<f64> = pairs
            .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
            .collect();
        Self {
            of_medians: middle(record).as_secs_f64() / middle(base).as_secs_f64(),
            paired: [10, 50, 90].map(|part| percentile(&ratios, part)),
        }
    }

    fn paired(&self) -> String {
        let [low, middle, high] = self.paired;
        format!("{middle:.2} ({low:.2} to {high:.2})")
    }
}

/// Writes the times to read one lock. The ratios are relative to the first of `records`.
pub(crate) fn one(page: &mut Page, records: &[Record]) {
    let (peer, ours) = records.split_first().expect("the peer was timed");
    page.section(
        "One action",
        &format!(
            "Times from the fork of a process to its end. In each of {} rounds, each program runs once. The lock has a \
             holder and a waiter. The ratio is calculated for each round, and the table shows the median (p10 to p90). \
             All programs use TCP without TLS on the loopback interface.",
            peer.times.len()
        ),
    );
    let mut rows = vec![[spread(peer), vec!["1.00".to_owned(), "–".to_owned()]].concat()];
    for record in ours {
        let ratio = Ratio::of(record, peer);
        let target_met = verdict(ratio.paired[1] <= SHARE).to_owned();
        rows.push([spread(record), vec![ratio.paired(), target_met]].concat());
    }
    let target = format!("≤ {SHARE}");
    let head = [
        "whole process",
        "median, ms",
        "minimum",
        "p10 to p90",
        "ratio to etcdctl",
        &target,
    ];
    page.table(&head, &rows);
}

/// Writes the cost of many actions. `records` contains the records of all sites.
pub(crate) fn many(page: &mut Page, records: &[Record]) {
    let ours: Vec<Times> = records.chunks(Times::COUNT).map(Times::of).collect();
    growth(page, &ours);
    indices(page, &ours);
}

fn growth(page: &mut Page, ours: &[Times]) {
    page.section(
        "A million actions",
        &format!(
            "A database with {FEW} actions, all of them held, compared with a database with {MANY} actions on the \
             same server, {FEW} of them held. The times are medians of {} rounds in milliseconds. `exec` acquires a \
             different action, which is free.",
            ours[0].exec[0].times.len()
        ),
    );
    let mut rows = Vec::new();
    for times in ours {
        for (records, promised) in [(times.all, true), (times.one, true), (times.exec, false)] {
            let [few, many] = records;
            let ratio = Ratio::of(many, few);
            rows.push(vec![
                few.name.clone(),
                millis(middle(few)),
                millis(middle(many)),
                format!("{:.2}", ratio.of_medians),
                ratio.paired(),
                match promised {
                    true => verdict(ratio.of_medians <= GROWTH).to_owned(),
                    false => "–".to_owned(),
                },
            ]);
        }
    }
    let (few, many) = (FEW.to_string(), MANY.to_string());
    let target = format!("≤ {GROWTH}");
    let head = [
        "whole process",
        &few,
        &many,
        "ratio of medians",
        "ratio in each round",
        &target,
    ];
    page.table(&head, &rows);
}

fn indices(page: &mut Page, ours: &[Times]) {
    page.section(
        "Secondary indices",
        &format!(
            "The cost of the two secondary indices of `dlock_lock`, which `status` needs, for a grant and its \
             release. The database has {FEW} actions. The times are medians in milliseconds."
        ),
    );
    let rows: Vec<Vec<String>> = ours
        .iter()
        .map(|times| {
            let ratio = Ratio::of(times.exec[0], times.plain);
            vec![
                times.plain.name.clone(),
                millis(middle(times.plain)),
                millis(middle(times.exec[0])),
                format!("{:.2}", ratio.of_medians),
                ratio.paired(),
            ]
        })
        .collect();
    let head = [
        "whole process",
        "without",
        "with",
        "ratio of medians",
        "ratio in each round",
    ];
    page.table(&head, &rows);
}

/// Writes the numbers of packets, on each site, for `dlock status` of one action and of all actions.
pub(crate) fn requests(page: &mut Page, sites: &[Site], costs: &[[Traffic; 2]]) {
    page.section(
        "Round trips",
        "The numbers of packets that the client sends. A proxy counts them.",
    );
    let rows: Vec<Vec<String>> = sites
        .iter()
        .zip(costs)
        .flat_map(|(site, costs)| {
            ["`dlock status init`", "`dlock status`"]
                .map(|name| (site, name))
                .into_iter()
                .zip(costs)
        })
        .map(|((site, name), traffic)| {
            vec![
                format!("{name}, {}", site.name()),
                traffic.connections.to_string(),
                traffic.login.to_string(),
                traffic.requests.to_string(),
                traffic.quits.to_string(),
                verdict(traffic.requests <= REQUESTS).to_owned(),
            ]
        })
        .collect();
    let target = format!("requests ≤ {REQUESTS}");
    let head = [
        "",
        "connections",
        "login",
        "requests after login",
        "COM_QUIT",
        &target,
    ];
    page.table(&head, &rows);
}

/// Returns name, median, minimum and spread of a record.
fn spread(record: &Record) -> Vec<String> {
    let [minimum, low, middle, high] = [0, 10, 50, 90].map(|part| percentile(&record.times, part));
    let between = format!("{} to {}", millis(low), millis(high));
    vec![
        record.name.clone(),
        millis(middle),
        millis(minimum),
        between,
    ]
}

fn middle(record: &Record) -> Duration {
    percentile(&record.times, 50)
}
