//! Settings of the C library's heap.

use libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TOP_PAD, M_TRIM_THRESHOLD, c_int};

/// Settings that save page faults. By default, a thread gets a heap of its own, and the C library often returns memory
/// to the kernel and soon asks for it again. With these settings, an `exec` has 110 page faults less of 680, and needs
/// 13 % less processor time. The heap of dlock has less than 1 MiB.
const SETTINGS: [(c_int, c_int); 4] = [
    (M_ARENA_MAX, 1),
    (M_TOP_PAD, 1 << 20),
    (M_TRIM_THRESHOLD, 64 << 20),
    (M_MMAP_THRESHOLD, 1 << 20),
];

/// Settings that return free memory to the kernel, for a process that runs for months and sometimes needs a lot of
/// memory for a moment.
const SERVICE_SETTINGS: [(c_int, c_int); 3] = [
    (M_TOP_PAD, 128 << 10),
    (M_TRIM_THRESHOLD, 1 << 20),
    (M_MMAP_THRESHOLD, 128 << 10),
];

/// Sets the heap up for a long run, after [`configure`].
pub fn configure_for_service() {
    apply(&SERVICE_SETTINGS);
}

/// Returns free memory to the kernel, also from the middle of the heap.
pub fn trim() {
    // SAFETY: malloc_trim takes an integer.
    unsafe { libc::malloc_trim(0) };
}

/// Sets the heap up for a short run. Call this function before the first thread starts.
pub fn configure() {
    apply(&SETTINGS);
}

fn apply(settings: &[(c_int, c_int)]) {
    for &(setting, value) in settings {
        // SAFETY: mallopt takes two integers. A setting that the C library refuses has no effect.
        unsafe { libc::mallopt(setting, value) };
    }
}
