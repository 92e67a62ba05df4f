//! All direct calls to the kernel, for example for clocks, processes, signals, sockets and the terminal.
//!
//! This is the only module that may contain `unsafe` or call libc. Its public functions are safe.

pub mod boot_timer;
pub mod channel;
pub mod clock;
pub mod group_child;
pub mod heap;
pub mod host;
pub mod inherited;
pub mod input;
pub mod interpreter;
pub mod latest;
pub mod notify;
pub mod output_file;
pub mod pending_child;
pub mod proc;
pub mod process;
pub mod random;
pub mod signal;
mod signal_mask;
pub mod signal_name;
pub mod socket;
pub mod stderr;
pub mod stop_signal;
pub mod tcp;
pub mod terminal;
pub mod tree;
pub mod user;
pub mod ward;
pub mod ward_tree;
