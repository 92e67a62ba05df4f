//! Fails if dlock has become slow in comparison with `etcdctl lock`. `make bench-guard` runs this section.
//!
//! Each try measures all competitors in turn, so other load of the machine affects all of them. The section fails if a ratio
//! exceeds its limit (`limits`) in each of [`TRIES`] tries. With `DLOCK_EARLIER=PATH`, there is one try, and the
//! program at that path is measured too, without a limit. `flock` shows the speed of the machine.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};

use crate::competitor::Competitor;
use crate::handover;
use crate::limits;

/// Number of contenders that start together without a holder.
pub(crate) const HERD: usize = 100;

/// Maximum number of tries.
const TRIES: usize = 3;

/// Number of rounds of each measurement in a try: hand-over, herd, and executions of `true`.
const ROUNDS: [usize; 3] = [4, 2, 40];

/// The times of one competitor, in seconds: median and 99th percentile of the hand-over, median of the herd, and median of
/// an execution of `true`.
type Times = [f64; 4];

/// The names of the times, with the maximum ratios.
const LIMITS: [(&str, f64); 4] = [
    ("hand-over p50", limits::HANDOVER_P50),
    ("hand-over p99", limits::HANDOVER_P99),
    ("herd of 100", limits::HERD),
    ("`exec` of `true`", limits::EXEC),
];

/// Measures until no ratio exceeds its limit. Returns false if each try had a ratio that is too large.
pub(crate) fn section(
    page: &mut Page,
    dlock: &[Competitor; 2],
    etcd: &Competitor,
    flock: &Competitor,
    folder: &Path,
) -> bool {
    let earlier: Vec<Competitor> = std::env::var_os("DLOCK_EARLIER")
        .iter()
        .flat_map(|program| {
            dlock.iter().map(move |competitor| match competitor {
                Competitor::Dlock(site) => Competitor::Earlier(Rc::clone(site), program.into()),
                _ => panic!("the competitors are dlock"),
            })
        })
        .collect();
    let competitors: Vec<&Competitor> = [etcd, &dlock[0], &dlock[1], flock]
        .into_iter()
        .chain(&earlier)
        .collect();
    page.section(
        "Guard",
        &format!(
            "Times in milliseconds, and in parentheses their ratios to those of `etcdctl lock`. {} rounds of hand-overs, {} of \
             {HERD} contenders that start together, and {} executions of `true`.",
            ROUNDS[0], ROUNDS[1], ROUNDS[2]
        ),
    );
    let rounds = std::env::var("ROUNDS").map_or(1, |factor| {
        factor.parse().expect("ROUNDS is a number of rounds")
    });
    let tries = match earlier.is_empty() {
        true => TRIES,
        false => 1,
    };
    (0..tries).any(|_| measure(page, &competitors, rounds, folder))
}

/// Measures once, and writes a table. Returns true if no ratio of dlock exceeds its limit.
fn measure(page: &mut Page, competitors: &[&Competitor], factor: usize, folder: &Path) -> bool {
    let [handovers, herds, execs] = ROUNDS.map(|rounds| rounds * factor);
    let gaps = handover::measure(competitors, handovers, folder);
    let herds = in_turn(competitors, herds, |competitor| {
        at_once(competitor, HERD, "herd")
    });
    let execs = in_turn(competitors, execs, |competitor| {
        at_once(competitor, 1, "alone")
    });
    let times = |index: usize| -> Times {
        let gaps: Vec<Duration> = gaps[index].all();
        [
            percentile(&gaps, 50),
            percentile(&gaps, 99),
            percentile(&herds[index], 50),
            percentile(&execs[index], 50),
        ]
        .map(|time| time.as_secs_f64())
    };
    let reference = times(0);
    let mut holds = true;
    let mut rows = Vec::new();
    for (index, competitor) in competitors.iter().enumerate() {
        let times = times(index);
        let mut row = vec![competitor.name()];
        let mut is_within = true;
        for ((time, reference), (_, limit)) in times.iter().zip(reference).zip(LIMITS) {
            let ratio = time / reference;
            is_within &= ratio <= limit;
            let time = millis(Duration::from_secs_f64(*time));
            row.push(format!("{time} ({ratio:.2})"));
        }
        let has_limit = matches!(competitor, Competitor::Dlock(_));
        holds &= is_within || !has_limit;
        row.push(match has_limit {
            true => verdict(is_within).to_owned(),
            false => "–".to_owned(),
        });
        rows.push(row);
    }
    let titles = LIMITS.map(|(name, limit)| format!("{name}, at most {limit:.2}"));
    let mut columns = vec!["competitor"];
    columns.extend(titles.iter().map(String::as_str));
    columns.push("within the limits");
    page.table(&columns, &rows);
    holds
}

/// Measures each competitor once in each round. The first competitor changes with each round, and the order is reversed in
/// every second round, so no competitor always follows the same one.
fn in_turn(
    competitors: &[&Competitor],
    rounds: usize,
    mut measure: impl FnMut(&Competitor) -> Duration,
) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::new(); competitors.len()];
    for round in 0..rounds {
        for turn in 0..competitors.len() {
            let turn = match round % 2 {
                0 => turn,
                _ => competitors.len() - 1 - turn,
            };
            let index = (turn + round) % competitors.len();
            times[index].push(measure(competitors[index]));
        }
    }
    times
}

/// Starts `count` executions of `true` under the lock `action`. Returns the time until all have ended.
fn at_once(competitor: &Competitor, count: usize, action: &str) -> Duration {
    let started = Instant::now();
    let children: Vec<_> = (0..count)
        .map(|number| {
            let mut lock = competitor.lock(action, &number.to_string(), &["true".into()]);
            lock.spawn().expect("the program starts")
        })
        .collect();
    for mut child in children {
        let status = child.wait().expect("a child can be waited for");
        assert!(status.success(), "{}: {status}", competitor.name());
    }
    started.elapsed()
}
