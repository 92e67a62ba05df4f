//! The tables of measured values and targets.

use std::time::Duration;

use crate::markdown::{Page, verdict};
use crate::sample::{millis, percentile};
use crate::site::{FEW, MANY, Site, Times};
use crate::timing::Record;
use crate::traffic::Traffic;

/// Targets: the maximum ratio to etcdctl's time, and the maximum ratio of the time with many actions to the time with
/// few, with the same number of held actions.
const SHARE: f64 = 0.5;
const GROWTH: f64 = 1.5;

/// Maximum number of round trips after the login.
const REQUESTS: usize = 1;

/// The ratio of the times of two contestants.
struct Ratio {
    of_medians: f64,
    /// The p10, median and p90 of the ratios, round by round.
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

/// Writes the times of reading one lock. The first of `records` is the reference of the ratios.
pub(crate) fn one(page: &mut Page, records: &[Record]) {
    let (peer, ours) = records.split_first().expect("the peer was timed");
    page.section(
        "One action",
        &format!(
            "From fork to wait, {} rounds in which each runs once; somebody holds the lock and \
             somebody waits for it. The ratio is taken round by round: median (p10 to p90). Plain TCP on the loopback.",
            peer.times.len()
        ),
    );
    let mut rows = vec![[spread(peer), vec!["1.00".to_owned(), "–".to_owned()]].concat()];
    for record in ours {
        let ratio = Ratio::of(record, peer);
        let kept = verdict(ratio.paired[1] <= SHARE).to_owned();
        rows.push([spread(record), vec![ratio.paired(), kept]].concat());
    }
    let target = format!("≤ {SHARE}");
    let head = [
        "whole process",
        "median, ms",
        "least",
        "p10 to p90",
        "ratio to etcdctl",
        &target,
    ];
    page.table(&head, &rows);
}

/// Writes the cost of many actions. `records` are those of all sites.
pub(crate) fn many(page: &mut Page, records: &[Record]) {
    let ours: Vec<Times> = records.chunks(Times::COUNT).map(Times::of).collect();
    growth(page, &ours);
    indices(page, &ours);
}

fn growth(page: &mut Page, ours: &[Times]) {
    page.section(
        "A million actions",
        &format!(
            "A database of {FEW} actions, all held, beside one of {MANY} on the same server, of which as many are held; \
             {} rounds in which all below runs once. Milliseconds, medians. `exec` is of one more action, which is free.",
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
        "round by round",
        &target,
    ];
    page.table(&head, &rows);
}

fn indices(page: &mut Page, ours: &[Times]) {
    page.section(
        "The indices",
        &format!(
            "What the two secondary indices of `dlock_lock`, which `status` needs, cost a grant and its release, with \
             {FEW} actions. Milliseconds, medians."
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
        "round by round",
    ];
    page.table(&head, &rows);
}

/// Writes the packets that were sent, on each site for one action and for all.
pub(crate) fn requests(page: &mut Page, sites: &[Site], costs: &[[Traffic; 2]]) {
    page.section(
        "Round trips",
        "Packets of the client, as a proxy counts them.",
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
        "requests after it",
        "farewells",
        &target,
    ];
    page.table(&head, &rows);
}

/// Returns name, median, minimum and spread of a record.
fn spread(record: &Record) -> Vec<String> {
    let [least, low, middle, high] = [0, 10, 50, 90].map(|part| percentile(&record.times, part));
    let between = format!("{} to {}", millis(low), millis(high));
    vec![record.name.clone(), millis(middle), millis(least), between]
}

fn middle(record: &Record) -> Duration {
    percentile(&record.times, 50)
}
