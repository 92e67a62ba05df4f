//! Random bytes from the kernel.

use std::io;

/// Returns `N` cryptographically secure random bytes.
///
/// # Errors
/// Fails if the kernel cannot supply random bytes.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
