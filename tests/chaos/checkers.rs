//! Tests of the chaos run's checkers: each must report a history that violates its claim, and no other history.
//!
//! They are a target of their own because the chaos run is a program with modes.

#![allow(dead_code, reason = "the chaos run uses the rest of it")]

mod check;
mod fault_kind;
mod history;
mod schedule;
mod store;
mod timeline;

#[path = "checkers/end_checks_test.rs"]
mod end_checks_test;
#[path = "checkers/history_builder.rs"]
mod history_builder;
#[path = "checkers/overlap_checks_test.rs"]
mod overlap_checks_test;
#[path = "checkers/schedules.rs"]
mod schedules;
