//! Random bytes from the kernel.

use std::io;

/// `N` bytes that nobody can guess.
///
/// # Errors
/// When the kernel has none to give.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
