//! A process that holds a lock, and one that waits for it: what there is to be seen of a lock in use.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::fifo::{eventually, make_fifo, reader_came};

/// Between two looks at who waits.
const PAUSE: Duration = Duration::from_millis(20);

/// The two, which end with this value.
pub(crate) struct Pair {
    /// Closed to let the holder go.
    stay: Option<File>,
    children: [Child; 2],
}

impl Pair {
    /// Starts both by `lock`, which runs a command under the lock, and returns when one holds and the other `waits`.
    pub(crate) fn start(
        lock: impl Fn(&[&OsStr]) -> Command,
        waits: impl FnMut() -> bool,
        fifo: &Path,
    ) -> Self {
        let start = |command: &[&OsStr]| lock(command).spawn().expect("the program starts");
        make_fifo(fifo);
        let holder = start(&["cat".as_ref(), fifo.as_os_str()]);
        let stay = Some(reader_came(fifo));
        let waiter = start(&["true".as_ref()]);
        eventually("the second one waits", PAUSE, waits);
        Self {
            stay,
            children: [holder, waiter],
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.stay.take());
        for child in &mut self.children {
            // The only failure is that there is nobody to wait for.
            let _ = child.wait();
        }
    }
}
