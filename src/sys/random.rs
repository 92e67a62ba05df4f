//! Random bytes from the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns `N` cryptographically secure random bytes.
///
/// # Errors
/// Fails if the kernel cannot supply random bytes.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // The kernel never interrupts or shortens a read of at most 256 bytes; see getrandom(2).
    const { assert!(N <= 256) };
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        length if length == N => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
