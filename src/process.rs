//! The processes of a run: the monitor, which enforces the deadline, the rules by which it signals the command's tree,
//! and the hooks.

pub mod hook;
pub mod monitor;
pub mod supervisor;
