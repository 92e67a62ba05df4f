//! Numbers made of measurements.

use std::collections::HashMap;
use std::time::Duration;

/// The value that `part` of a hundred values do not exceed (nearest rank).
pub(crate) fn percentile<T: PartialOrd + Copy>(values: &[T], part: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|one, other| one.partial_cmp(other).expect("the values are comparable"));
    let rank = (sorted.len() * part).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// How many pairs of `expected` stand the other way round in `actual`, which may lack some.
pub(crate) fn inversions(expected: &[String], actual: &[String]) -> usize {
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

/// Milliseconds, as they stand in tables.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

/// Seconds, as they stand in tables.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

/// Bytes as MiB, as they stand in tables.
pub(crate) fn mebibytes(bytes: u64) -> String {
    let hundredths = (bytes * 100).div_ceil(1 << 20);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
