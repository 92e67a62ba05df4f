//! Shared parts of the subcommands that list locks: the actions that the user has selected, a snapshot of their state, and
//! the time limits of the screen and of the page, which read snapshots repeatedly.

pub mod selection;
pub mod snapshot;

use std::time::Duration;

/// Maximum time of one connect, one read, or one write of a subcommand that shows or changes locks.
pub const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time to wait for a response on an open connection. Then the connection is dropped. The limit is below
/// `IO_TIMEOUT`, so it also applies to a server that sends one byte per second.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum time to wait for a response if dlock must connect first, including name resolution. A login takes several
/// round trips, so a shorter limit could prevent every connection over a slow network.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
