//! Settings of the C library's heap, for a process that runs for months and sometimes needs a lot of memory for a moment.

use libc::{M_MMAP_THRESHOLD, c_int};

/// Size from which a block is returned to the kernel as soon as it is freed. By default, the C library raises this limit
/// after the first large block. With 10 000 locks, `dlock serve` would then keep 4 MiB more.
const LARGE: c_int = 128 << 10;

/// Makes the C library return each large block to the kernel when it is freed.
pub fn return_large_blocks() {
    // SAFETY: mallopt takes two integers. A setting that the C library refuses has no effect.
    unsafe { libc::mallopt(M_MMAP_THRESHOLD, LARGE) };
}

/// Returns free memory to the kernel, also from the middle of the heap.
pub fn trim() {
    // SAFETY: malloc_trim takes an integer.
    unsafe { libc::malloc_trim(0) };
}
