//! Compares the run times of whole processes, from before the fork to after the wait, on `CLOCK_MONOTONIC`.

use std::process::Command;
use std::time::{Duration, Instant};

use super::markdown::{Page, verdict};
use super::sample::{millis, percentile};
use super::succeed;

/// Number of initial rounds whose times are discarded. These rounds create the rows and fill all caches, including the
/// account caches of the servers.
pub const WARM_UP: usize = 5;

/// The run times of one program, one for each round.
pub struct Record {
    pub name: String,
    pub times: Vec<Duration>,
}

impl Record {
    pub fn median(&self) -> Duration {
        percentile(&self.times, 50)
    }

    /// Returns the p10, median and p90 of the ratios to `other`, which are calculated for each round.
    pub fn ratios(&self, other: &Self) -> [f64; 3] {
        let pairs = self.times.iter().zip(&other.times);
        let ratios: Vec<f64> = pairs
            .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
            .collect();
        [10, 50, 90].map(|part| percentile(&ratios, part))
    }
}

/// Measures each of `count` programs once in each round, so that other load of the machine affects all of them equally, and
/// returns the results of each program. `measure` gets the number of the program and of the round. The order is reversed in
/// every second round and rotated after two rounds, so no program always follows the same one.
pub fn in_turn<T>(
    count: usize,
    rounds: usize,
    mut measure: impl FnMut(usize, usize) -> Vec<T>,
) -> Vec<Vec<T>> {
    let mut results: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..count {
            let position = match round % 2 {
                0 => turn,
                _ => count - 1 - turn,
            };
            let index = (position + round / 2) % count;
            results[index].extend(measure(index, round));
        }
    }
    results
}

/// Runs all `programs` `rounds` times, after [`WARM_UP`] rounds.
pub fn run(programs: Vec<(String, Command)>, rounds: usize) -> Vec<Record> {
    let (names, mut commands): (Vec<String>, Vec<Command>) = programs.into_iter().unzip();
    let times = in_turn(commands.len(), WARM_UP + rounds, |index, round| {
        let start = Instant::now();
        succeed(&mut commands[index]);
        let time = start.elapsed();
        if round < WARM_UP { vec![] } else { vec![time] }
    });
    let pairs = names.into_iter().zip(times);
    pairs.map(|(name, times)| Record { name, times }).collect()
}

/// Writes the times of `records`, with the ratios to the first of them. `target` returns the largest ratio of a program.
pub fn table(page: &mut Page, records: &[Record], target: impl Fn(&str) -> Option<f64>) {
    let row = |record: &Record| {
        let [minimum, low, median, high] =
            [0, 10, 50, 90].map(|part| millis(percentile(&record.times, part)));
        let [ratio_low, ratio, ratio_high] = record.ratios(&records[0]);
        vec![
            record.name.clone(),
            median,
            minimum,
            format!("{low} to {high}"),
            format!("{ratio:.2} ({ratio_low:.2} to {ratio_high:.2})"),
            target(&record.name).map_or("–".to_owned(), |target| {
                format!("≤ {target:.2}: {}", verdict(ratio <= target))
            }),
        ]
    };
    let rows: Vec<_> = records.iter().map(row).collect();
    let head = "whole process | median, ms | minimum | p10 to p90 | ratio to the first row | \
        target";
    page.table(head, &rows);
}
