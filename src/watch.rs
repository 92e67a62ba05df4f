//! `dlock status --watch`: the content of the screen, as values.
//!
//! Keys and responses of the server change a [`state::State`], which is rendered to a [`frame::Frame`]. This code reads
//! no clock and uses no terminal, so that tests need neither. Only [`terminal`] uses a terminal. [`app`] connects keys,
//! signals, responses and the screen.

pub mod app;
pub mod columns;
pub mod detail_state;
pub mod details;
pub mod frame;
pub mod key;
pub mod list;
pub mod options;
pub mod selection;
mod severity;
pub mod snapshot;
pub mod state;
pub mod terminal;
mod update;

#[cfg(test)]
mod tests;
