//! Tests of the checkers of the chaos run. Each checker must report every history that violates its property, and no other
//! history.
//!
//! These tests are a separate target because the chaos run is a program without a test harness.

#![allow(dead_code, reason = "the chaos run uses the other items")]

mod check;
mod fault_kind;
mod history;
mod schedule;
mod store;
mod timeline;

#[path = "checkers/end_checks_test.rs"]
mod end_checks_test;
#[path = "checkers/history_text.rs"]
mod history_text;
#[path = "checkers/overlap_checks_test.rs"]
mod overlap_checks_test;
#[path = "checkers/schedules.rs"]
mod schedules;
