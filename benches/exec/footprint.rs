//! Measures the memory of a running client and the size of the program.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::Site;

/// Maximum time until a client reaches the state in which it is measured. Even a busy machine normally needs far less
/// time.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Pause between two checks of a client.
const PAUSE: Duration = Duration::from_millis(20);

/// Sizes in bytes.
pub(crate) struct Footprint {
    /// Peak resident size of dlock for each route to its server.
    pub(crate) memory: Vec<(String, u64)>,
    /// Peak resident size of `etcdctl`.
    pub(crate) peer: u64,
    pub(crate) binary: u64,
}

/// Returns the peak resident size of `holder` in bytes, measured when `ready` first returns true. The command under the
/// lock must run until its standard input is closed or, at least, until the size has been measured.
///
/// The value is the kernel's maximum since the `execve` of the program. The maximum that `wait4` returns would also
/// cover the time between the fork and the `execve`, and would therefore include the size of this process.
pub(crate) fn peak(mut holder: Command, mut ready: impl FnMut() -> bool) -> u64 {
    let mut child = holder
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let started = Instant::now();
    while !ready() {
        let ended = child.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "the holder ended: {ended:?}");
        assert!(
            started.elapsed() < TIMEOUT,
            "the holder did not acquire the lock in time"
        );
        thread::sleep(PAUSE);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes: u64 = kibibytes
        .and_then(|number| number.parse().ok())
        .expect("VmHWM in kB");
    drop(child.stdin.take());
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success(), "the holder: {status}");
    kibibytes * 1024
}

/// Returns the number of renewals of the lease on `action`. 0 if the action is free.
pub(crate) fn renewals(site: &Site, action: &str) -> u64 {
    let query = "SELECT renewals FROM dlock_lock WHERE action = ? AND owner_id IS NOT NULL";
    let row = site.database.admin_conn().exec_first(query, (action,));
    row.expect("root can read the row").unwrap_or(0)
}
