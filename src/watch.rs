//! `dlock status --watch`: what is on the screen, as values.
//!
//! Keys and answers of the server change a [`state::State`], and a state makes a [`frame::Frame`];
//! nothing of that reads a clock or touches a terminal, so all of it is tested without one. Only
//! [`terminal`] knows a terminal, and [`show`] brings keys, signals, answers and screen together.

pub mod asked;
pub mod columns;
pub mod details;
pub mod frame;
pub mod heard;
pub mod key;
pub mod list;
pub mod opened;
pub mod show;
pub mod state;
pub mod terminal;

#[cfg(test)]
mod tests;
