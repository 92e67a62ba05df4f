//! The limits of `make bench-guard`. Each limit is the largest ratio of a time of dlock to the same time of `etcdctl lock`
//! in the same run, and has room for a busy machine.
//!
//! Measured on 2026-11-26, on 2 cores, with the data in memory, on MariaDB and MySQL: hand-over p50 1.01 and 1.14, p99 1.14
//! and 1.15, herd 0.66 and 0.82, `exec` 0.46 and 0.51.

/// Median of the hand-over.
pub(crate) const HANDOVER_P50: f64 = 1.5;
/// 99th percentile of the hand-over.
pub(crate) const HANDOVER_P99: f64 = 3.0;
/// Time until [`HERD`](super::guard::HERD) contenders that start together have run.
pub(crate) const HERD: f64 = 1.2;
/// Median of an execution of `true` without other contenders.
pub(crate) const EXEC: f64 = 0.7;
