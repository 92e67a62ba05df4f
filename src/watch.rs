//! `dlock status --watch`: the state of the screen and its content.
//!
//! Keys and responses from the server change a [`state::ScreenState`], which is rendered to a [`frame::Frame`]. The
//! state and the frame depend on no clock and on no terminal, so their tests need neither. Only [`terminal`] uses a
//! terminal. [`app`] passes keys, signals and responses to the state, and passes frames to the terminal.

pub mod app;
pub mod detail_state;
pub mod details;
pub mod frame;
pub mod key;
pub mod list;
pub mod options;
pub mod release_dialog;
mod release_page;
mod staleness;
pub mod state;
pub mod terminal;
mod update;

#[cfg(test)]
mod tests;
