//! The chaos run's checkers are checked here, in a target of their own because the run itself is a program with modes:
//! each must complain of a history that breaks its claim, and of nothing else.

#![allow(dead_code, reason = "the run uses what the checkers do not")]

mod check;
mod history;
mod kind;
mod schedule;
mod store;
mod story;

#[path = "checkers/bad_ends.rs"]
mod bad_ends;
#[path = "checkers/bad_lives.rs"]
mod bad_lives;
#[path = "checkers/plot.rs"]
mod plot;
#[path = "checkers/schedules.rs"]
mod schedules;
