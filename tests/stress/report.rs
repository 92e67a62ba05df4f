//! The report of rounds and ticks: one line for each, and a summary.
//!
//! Each line includes the load of the machine; no figure is adjusted for it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::checks::{DONE, Fate, Round, Tick, count};
use crate::crontab::{HOSTS, PERIOD, SKEW};
use crate::host;
use crate::options::Options;
use crate::replicas::{REPLICAS, STOPS};
use crate::sample::{percentile, seconds};
use crate::servers::Flavour;

/// Returns the first line: what is about to run.
pub(crate) fn beginning(options: &Options) -> String {
    let Options {
        rounds,
        ticks,
        seed,
        ttl,
        is_timed,
    } = options;
    let timed = match is_timed {
        true => "late is a miss",
        false => "no time is judged",
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
    /// Times from the kill to the last survivor's end, of each round in which all survivors ended.
    lasts: Vec<Duration>,
    allowed: Duration,
    late: usize,
}

#[derive(Default)]
struct Count {
    all: usize,
    missed: usize,
    loads: Vec<f64>,
}

impl Tally {
    pub(crate) fn new(flavour: Flavour, is_timed: bool) -> Self {
        Self {
            flavour,
            is_timed,
            rounds: Count::default(),
            ticks: Count::default(),
            lasts: Vec::new(),
            allowed: Duration::ZERO,
            late: 0,
        }
    }

    /// Counts a round and returns its line.
    pub(crate) fn count_round(&mut self, number: u32, round: &Round) -> String {
        self.allowed = round.allowed;
        self.lasts.extend(round.last());
        let mut misses = round.misses();
        if round.is_late() {
            self.late += 1;
            if self.is_timed {
                misses.push("late".to_owned());
            }
        }
        let load = self.rounds.add(&misses);
        let survivors = round.with(Fate::LetAlone).count();
        let last = round.last().map_or("never".to_owned(), seconds);
        format!(
            "{} round {number}: successes {}, survivors that ended with 0 {} of {survivors}, stopped {}, the last ended {last} s \
             after the kill ({} s allowed), load {load:.2}{}",
            self.flavour,
            count(&round.written, DONE),
            round
                .with(Fate::LetAlone)
                .filter(|replica| replica.is_served())
                .count(),
            round.with(Fate::Stopped).count(),
            seconds(round.allowed),
            told(&misses)
        )
    }

    /// Counts a tick and returns its line.
    pub(crate) fn count_tick(&mut self, number: u32, tick: &Tick) -> String {
        let misses = tick.misses();
        let load = self.ticks.add(&misses);
        let started = tick.hosts.iter().map(|host| host.started);
        let [first, last] = [started.clone().min(), started.max()];
        let [first, last] = [first, last].map(|at| seconds(at.unwrap_or_default()));
        let ended = tick.hosts.iter().filter(|host| host.status == Some(0));
        format!(
            "{} tick {number}: runs {}, hosts that ended with 0 {} of {}, started {first} to {last} s after it, load {load:.2}{}",
            self.flavour,
            count(&tick.written, DONE),
            ended.count(),
            tick.hosts.len(),
            told(&misses)
        )
    }

    /// Returns true if there was no miss.
    pub(crate) fn holds(&self) -> bool {
        self.rounds.missed + self.ticks.missed == 0
    }

    /// Returns the summary.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if !self.lasts.is_empty() {
            let [middle, most] = [50, 100].map(|part| seconds(percentile(&self.lasts, part)));
            let _ = writeln!(
                text,
                "rounds on {}: {}; from the kill to the last survivor's end median {middle} s, most {most} s, {} s \
                 allowed, {} late; load {}",
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
    /// Counts a round or tick, and returns the present load of the machine.
    fn add(&mut self, misses: &[String]) -> f64 {
        let [load, ..] = host::load();
        self.all += 1;
        self.missed += usize::from(!misses.is_empty());
        self.loads.push(load);
        load
    }

    fn score(&self) -> String {
        format!("{} of {}", self.all - self.missed, self.all)
    }

    fn load(&self) -> String {
        let [least, middle, most] = [0, 50, 100].map(|part| percentile(&self.loads, part));
        format!("{least:.2} to {most:.2}, median {middle:.2}")
    }
}

/// Returns the misses for the end of a line. Empty if there are none.
fn told(misses: &[String]) -> String {
    let lines = misses.iter().flat_map(|what| ["\n  MISS: ", what]);
    lines.collect()
}
