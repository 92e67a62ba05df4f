//! How much memory a running client takes, and the size of the program.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::Site;

/// How long a client may take to get where it is measured: far above what a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(1);

/// Pause between two looks at a client.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes.
pub(crate) struct Footprint {
    /// Peak resident size of dlock, by the way that it reaches its server.
    pub(crate) memory: Vec<(String, u64)>,
    /// The same of `etcdctl`.
    pub(crate) peer: u64,
    pub(crate) binary: u64,
}

/// The peak resident size of `holder`, whose command waits for the end of its input, as soon as `ready` says so.
///
/// It is the kernel's high-water mark of the program itself, which begins with its `execve`. What `wait4` tells would
/// begin with the fork, and so with the size of this process.
pub(crate) fn peak(mut holder: Command, mut ready: impl FnMut() -> bool) -> u64 {
    let mut child = holder.stdin(Stdio::piped()).spawn().expect("it runs");
    let started = Instant::now();
    while !ready() {
        let ended = child.try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "the holder ended: {ended:?}");
        assert!(started.elapsed() < PATIENCE, "the holder never held");
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

/// How often the lease on `action` was renewed since somebody took it; 0 when nobody has it.
pub(crate) fn renewals(site: &Site, action: &str) -> u64 {
    let query = "SELECT renewals FROM dlock_lock WHERE action = ? AND claim IS NOT NULL";
    let row = site.database.admin_conn().exec_first(query, (action,));
    row.expect("root may look").unwrap_or(0)
}
