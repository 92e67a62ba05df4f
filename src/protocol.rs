//! The lock protocol as pure state machines. Each state machine takes events and times, and returns the next request to
//! send.
//!
//! No code in this module reads a clock, sends a packet or starts a thread. `exec` and the protocol model run the same
//! code.

pub mod acquire;
pub mod clock_jump;
pub mod release;
pub mod renew;
