//! The limits of `make bench-guard`. Each limit is the largest ratio of a time of dlock to the same time of `etcdctl lock`
//! in the same run, and has room for a busy machine.
//!
//! Measured on DATE, on 2 cores, with the data in memory: MEASURED.

/// Median of the hand-over.
pub(crate) const HANDOVER_P50: f64 = 1.0;
/// 99th percentile of the hand-over.
pub(crate) const HANDOVER_P99: f64 = 3.0;
/// Time in which [`HERD`](super::guard::HERD) contenders that start together have run.
pub(crate) const HERD: f64 = 1.0;
/// Median of an execution of `true` without other contenders.
pub(crate) const EXEC: f64 = 0.6;
