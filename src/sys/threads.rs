//! How many threads this process has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use super::clock;

/// How long the kernel may take to bury a thread. It takes microseconds.
const BURIAL: Duration = Duration::from_secs(1);

/// Waits until threads that have been joined are gone for the kernel, too: a join returns a moment
/// before, and nothing is forked as long as there is another thread.
pub fn wait_for_the_last() {
    let until = clock::now() + BURIAL;
    // A folder has two links and one for each folder in it.
    while fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() > 3)
        && clock::now() < until
    {
        thread::yield_now();
    }
}
