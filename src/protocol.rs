//! The lock protocol as pure state machines. The acquisition, the renewals and the release take responses and instants,
//! and return the next request to send.
//!
//! No code in this module reads a clock, sends a packet or starts a thread. `exec` and the protocol model run the same
//! code.
//!
//! **The holder** trusts only the boot clock of its machine, which nobody can set and which also counts while the machine
//! is suspended. A deadline counts from the instant before the latest successful request was sent, so a slow response
//! never extends it. The command and all its descendants are dead before the lease of that request can end on the server.
//!
//! **A contender** trusts its own boot clock too: it may take over a lease that it has seen unchanged for a whole ttl. To
//! be faster, it also uses the server's clock: it may take over a lease that has expired by this clock 0.9 seconds ago, if
//! it owns the queue lock, which proves that the holder's session has ended, or 5 seconds ago without this proof. So a
//! server's clock that jumps ahead can create a second holder only while the holder's session does not own the queue lock.
//!
//! **Nothing follows from an error**: the server may have committed the request. A grant whose response was lost counts
//! only after a renewal within that very lease has confirmed it, and a release is repeated until the row shows its result.
//! Only rows that a request has read back are evidence.
//!
//! **Not promised**: a command that is frozen together with dlock and its monitor may continue after its lease has ended.
//! A server that forgets commits, or an address that leads to a server with other data, can grant the action twice; dlock
//! notices both where it has read or written there before. In these cases only a resource that compares tokens is safe.
//! Each grant has a larger token than all grants that the server has not forgotten, whatever its clock shows.

pub mod acquire;
pub mod address;
pub mod keeper;
pub mod keepers;
pub mod release;
pub mod renew;
pub mod session_end;
pub mod sessions;
pub mod silence;
