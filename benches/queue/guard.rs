//! Compares dlock with `etcdctl lock` and `flock`: the time for which a lock is idle between two commands, the time until
//! many contenders that start together have run, and an execution without other contenders.
//!
//! `make bench` measures once. `make bench-guard` fails if a ratio exceeds its limit ([`LIMITS`]) in each of [`TRIES`] tries.
//! With `DLOCK_EARLIER=PATH`, there is one try, and the program at that path is measured too, without a limit. `flock` shows
//! the speed of the machine.

use std::env;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};
use testkit::bench::site::Site;
use testkit::bench::tied;
use testkit::bench::timing::in_turn;

use crate::competitor::{Competitor, Lock, Shape};
use crate::crowd::{Crowd, gaps};

/// Number of waiters in a hand-over, and the time for which each holds the lock.
const WAITERS: usize = 30;
const HOLD: Duration = Duration::from_millis(20);

/// Number of contenders that start together without a holder.
const HERD: usize = 100;

const TRIES: usize = 3;

/// Number of rounds of each measurement in a try: hand-over, herd, and executions of `true`.
const ROUNDS: [usize; 3] = [4, 2, 40];

/// The limits of `make bench-guard`. Each limit is the largest ratio of a time of dlock to the same time of `etcdctl lock`
/// in the same run, and has room for a busy machine.
///
/// Measured on 2026-11-26, on 2 cores, with the data in memory, on MariaDB and MySQL: hand-over p50 1.01 and 1.14, p99 1.14
/// and 1.15, herd 0.66 and 0.82, `exec` 0.46 and 0.51.
const LIMITS: [(&str, f64); 4] = [
    ("hand-over p50", 1.5),
    ("hand-over p99", 3.0),
    ("herd of 100", 1.2),
    ("`exec` of `true`", 0.7),
];

/// Measures until no ratio exceeds its limit. Returns false if each try had a ratio that is too large.
pub(crate) fn section(
    page: &mut Page,
    sites: &[Site; 2],
    etcd: &Etcd,
    folder: &Path,
    factor: usize,
) -> bool {
    let tries = match env::var_os("DLOCK_EARLIER") {
        Some(_) => 1,
        None => TRIES,
    };
    (0..tries).any(|_| try_once(page, sites, etcd, folder, factor))
}

/// Measures `factor` times the [`ROUNDS`], and writes a section. Returns true if no ratio of dlock exceeds its limit.
pub(crate) fn try_once(
    page: &mut Page,
    sites: &[Site; 2],
    etcd: &Etcd,
    folder: &Path,
    factor: usize,
) -> bool {
    let earlier = env::var_os("DLOCK_EARLIER");
    let [maria, mysql] = sites.each_ref().map(Competitor::Dlock);
    let mut competitors = vec![Competitor::Etcd(etcd), maria, mysql, Competitor::Flock];
    if let Some(program) = &earlier {
        let program = Path::new(program);
        competitors.extend((sites.iter()).map(|site| Competitor::Earlier(site, program)));
    }
    let [handovers, herds, execs] = ROUNDS.map(|rounds| rounds * factor);
    page.section(
        "Hand-over",
        &format!(
            "Times in milliseconds, and in parentheses their ratios to those of `etcdctl lock`. {handovers} rounds of \
             hand-overs to {WAITERS} waiters, which hold the lock for {HOLD:?}, {herds} of {HERD} contenders that start \
             together, and {execs} executions of `true`."
        ),
    );
    let measure = |rounds, measure: fn(Competitor, &Path) -> Vec<Duration>| {
        in_turn(competitors.len(), rounds, |index, _| {
            measure(competitors[index], folder)
        })
    };
    let gaps = measure(handovers, hand_over);
    let herds = measure(herds, |competitor, folder| {
        at_once(competitor, folder, HERD)
    });
    let execs = measure(execs, |competitor, folder| at_once(competitor, folder, 1));
    let times = |index: usize| {
        [
            percentile(&gaps[index], 50),
            percentile(&gaps[index], 99),
            percentile(&herds[index], 50),
            percentile(&execs[index], 50),
        ]
    };
    let mut holds = true;
    let row = |(index, competitor): (usize, &Competitor)| {
        let mut row = vec![competitor.name()];
        let mut is_within = true;
        for ((time, reference), (_, limit)) in times(index).iter().zip(times(0)).zip(LIMITS) {
            let ratio = time.as_secs_f64() / reference.as_secs_f64();
            is_within &= ratio <= limit;
            row.push(format!("{} ({ratio:.2})", millis(*time)));
        }
        row.push(match competitor {
            Competitor::Dlock(_) => {
                holds &= is_within;
                verdict(is_within).to_owned()
            }
            _ => "–".to_owned(),
        });
        row
    };
    let rows: Vec<_> = competitors.iter().enumerate().map(row).collect();
    let titles = LIMITS.map(|(name, limit)| format!("{name}, at most {limit:.2}"));
    let titles = titles.join(" | ");
    page.table(&format!("competitor | {titles} | within the limits"), &rows);
    holds
}

/// Returns the times from the end of one command to the start of the next.
fn hand_over(competitor: Competitor, folder: &Path) -> Vec<Duration> {
    let mut crowd = Crowd::start(competitor, folder, &[Shape::Exclusive]);
    crowd.add(WAITERS, Shape::Exclusive, Duration::ZERO, HOLD);
    gaps(&crowd.release(1))
}

/// Starts `count` executions of `true` under a lock. Returns the time until all have ended.
fn at_once(competitor: Competitor, folder: &Path, count: usize) -> Vec<Duration> {
    let name = format!("herd-{count}");
    let lock = Lock { name, folder };
    let started = Instant::now();
    let start = |number: usize| -> Child {
        let mut true_ = competitor.lock(&lock, Shape::Exclusive, &number.to_string());
        let child = tied(true_.arg("true")).stderr(Stdio::inherit()).spawn();
        child.expect("setpriv is installed")
    };
    let children: Vec<Child> = (0..count).map(start).collect();
    for mut child in children {
        let status = child.wait().expect("a child can be waited for");
        assert!(status.success(), "{}: {status}", competitor.name());
    }
    vec![started.elapsed()]
}
