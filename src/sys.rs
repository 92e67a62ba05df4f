//! Everything that is asked of the kernel: the clock, processes, signals, sockets, the terminal.
//!
//! The only module that may say `unsafe` or name a libc call; above it there are only safe words.

pub mod alarm;
pub mod clock;
pub mod group_child;
pub mod host;
pub mod inherited;
pub mod link;
pub mod pending_child;
pub mod proc;
pub mod process;
pub mod random;
pub mod signal;
pub mod socket;
pub mod stderr;
pub mod terminal;
pub mod tree;
