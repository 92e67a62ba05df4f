//! The lock protocol as pure state machines. The acquisition, the renewals and the release take responses and instants,
//! and return the next request to send.
//!
//! No code in this module reads a clock, sends a packet or starts a thread. `exec` and the protocol model run the same
//! code.

pub mod abandoned;
pub mod acquire;
pub mod address;
pub mod clock_jump;
pub mod release;
pub mod renew;
pub mod session_end;
pub mod sessions;
pub mod silence;
