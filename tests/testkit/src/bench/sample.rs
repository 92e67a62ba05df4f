//! Computes percentiles and inversions, and formats measured values.

use std::collections::HashMap;
use std::time::Duration;

/// Returns the percentile `part` (0 to 100) of `values`, by the nearest-rank method. Panics if there are no values.
pub fn percentile<T: PartialOrd + Copy>(values: &[T], part: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|one, other| one.partial_cmp(other).expect("the values are comparable"));
    let rank = (sorted.len() * part).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// Returns the number of pairs of `expected` that are in reverse order in `actual`. `actual` may contain fewer names.
pub fn inversions(expected: &[String], actual: &[String]) -> usize {
    let rank: HashMap<&String, usize> = expected.iter().zip(0..).collect();
    let ranks: Vec<usize> = actual
        .iter()
        .filter_map(|name| rank.get(name).copied())
        .collect();
    let pairs = (0..ranks.len()).flat_map(|late| (0..late).map(move |early| (early, late)));
    pairs
        .filter(|(early, late)| ranks[*early] > ranks[*late])
        .count()
}

pub fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

pub fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

/// Formats bytes in MiB, rounded up.
pub fn mebibytes(bytes: u64) -> String {
    let hundredths = (bytes * 100).div_ceil(1 << 20);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
