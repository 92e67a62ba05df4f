//! The report, which consists of one line for each round and tick, and a summary.
//!
//! Each line contains the load of the machine. No number is adjusted for the load.

use std::fmt::Write as _;
use std::time::Duration;

use testkit::bench::host;
use testkit::bench::sample::{percentile, seconds};
use testkit::servers::Flavour;

use crate::checks::{DONE, Round, SignalSent, Tick, count};
use crate::crontab::{HOSTS, PERIOD, SKEW};
use crate::options::Options;
use crate::replicas::{REPLICAS, STOPS};

/// Returns the first line of the report, which describes the run.
pub(crate) fn first_line(options: &Options) -> String {
    let Options {
        rounds,
        ticks,
        seed,
        ttl,
        is_timed,
    } = options;
    let timed = match is_timed {
        true => "a late round is a failure",
        false => "durations are not checked",
    };
    format!(
        "rounds: seed {seed}; {rounds} rounds of {REPLICAS} replicas with a ttl of {ttl:?}, 1 killed, {STOPS} stopped; \
         {ticks} ticks every {PERIOD:?} of {HOSTS} hosts that differ by up to {SKEW:?}; {timed}"
    )
}

/// Counts of all rounds and ticks on one server.
pub(crate) struct Tally {
    flavour: Flavour,
    is_timed: bool,
    rounds: Count,
    ticks: Count,
    /// Times from the kill to the end of the last survivor. Rounds in which a survivor did not end are not included.
    durations: Vec<Duration>,
    allowed: Duration,
    late: usize,
}

#[derive(Default)]
struct Count {
    all: usize,
    failed: usize,
    loads: Vec<f64>,
}

impl Tally {
    pub(crate) fn new(flavour: Flavour, is_timed: bool) -> Self {
        Self {
            flavour,
            is_timed,
            rounds: Count::default(),
            ticks: Count::default(),
            durations: Vec::new(),
            allowed: Duration::ZERO,
            late: 0,
        }
    }

    /// Counts a round, and returns its line of the report.
    pub(crate) fn count_round(&mut self, number: u32, round: &Round) -> String {
        self.allowed = round.allowed;
        self.durations.extend(round.last());
        let mut failures = round.failures();
        if round.is_late() {
            self.late += 1;
            if self.is_timed {
                failures.push("late".to_owned());
            }
        }
        let load = self.rounds.add(&failures);
        let survivors = round.with(SignalSent::NoSignal).count();
        let last = round.last().map_or("never".to_owned(), seconds);
        format!(
            "{} round {number}: successes {}, survivors that exited with 0 {} of {survivors}, stopped {}, the last \
             ended {last} s after the kill ({} s allowed), load {load:.2}{}",
            self.flavour,
            count(&round.written, DONE),
            round
                .with(SignalSent::NoSignal)
                .filter(|replica| replica.is_served())
                .count(),
            round.with(SignalSent::Stopped).count(),
            seconds(round.allowed),
            failure_lines(&failures)
        )
    }

    /// Counts a tick, and returns its line of the report.
    pub(crate) fn count_tick(&mut self, number: u32, tick: &Tick) -> String {
        let failures = tick.failures();
        let load = self.ticks.add(&failures);
        let started = tick.hosts.iter().map(|host| host.started);
        let [first, last] = [started.clone().min(), started.max()];
        let [first, last] = [first, last].map(|at| seconds(at.unwrap_or_default()));
        let ended = tick.hosts.iter().filter(|host| host.status == Some(0));
        format!(
            "{} tick {number}: runs {}, hosts that exited with 0 {} of {}, started {first} to {last} s after the \
             tick, load {load:.2}{}",
            self.flavour,
            count(&tick.written, DONE),
            ended.count(),
            tick.hosts.len(),
            failure_lines(&failures)
        )
    }

    /// Returns true if no round and no tick has failed.
    pub(crate) fn holds(&self) -> bool {
        self.rounds.failed + self.ticks.failed == 0
    }

    /// Returns the summary.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if !self.durations.is_empty() {
            let [median, maximum] =
                [50, 100].map(|part| seconds(percentile(&self.durations, part)));
            let _ = writeln!(
                text,
                "rounds on {}: {}; from the kill to the last survivor's end median {median} s, maximum {maximum} s, \
                 {} s allowed, {} late; load {}",
                self.flavour,
                self.rounds.score(),
                seconds(self.allowed),
                self.late,
                self.rounds.load()
            );
        }
        if self.ticks.all > 0 {
            let _ = writeln!(
                text,
                "ticks on {}: {} with one run; load {}",
                self.flavour,
                self.ticks.score(),
                self.ticks.load()
            );
        }
        text
    }
}

impl Count {
    /// Counts a round or tick, and returns the current load of the machine.
    fn add(&mut self, failures: &[String]) -> f64 {
        let [load, ..] = host::load();
        self.all += 1;
        self.failed += usize::from(!failures.is_empty());
        self.loads.push(load);
        load
    }

    fn score(&self) -> String {
        format!("{} of {}", self.all - self.failed, self.all)
    }

    fn load(&self) -> String {
        let [minimum, median, maximum] = [0, 50, 100].map(|part| percentile(&self.loads, part));
        format!("{minimum:.2} to {maximum:.2}, median {median:.2}")
    }
}

/// Formats the failures for the end of a line. Returns an empty string if there are none.
fn failure_lines(failures: &[String]) -> String {
    let lines = failures.iter().flat_map(|what| ["\n  FAILURE: ", what]);
    lines.collect()
}
