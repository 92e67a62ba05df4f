//! A process that holds a lock and a process that waits for it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use testkit::bench::fifo::{eventually, make_fifo, wait_for_reader};

/// Pause between two checks for the waiter.
const PAUSE: Duration = Duration::from_millis(20);

/// A holder and a waiter. Both end when this value is dropped.
pub(crate) struct Pair {
    /// Write end of the fifo. The holder's command ends when the write end is closed.
    fifo_writer: Option<File>,
    children: [Child; 2],
}

impl Pair {
    /// Starts the holder and the waiter with `lock`, which runs a command under the lock. Returns once the holder has
    /// the lock and `waits` returns true.
    pub(crate) fn start(
        lock: impl Fn(&[&OsStr]) -> Command,
        waits: impl FnMut() -> bool,
        fifo: &Path,
    ) -> Self {
        let start = |command: &[&OsStr]| lock(command).spawn().expect("the program starts");
        make_fifo(fifo);
        let holder = start(&["cat".as_ref(), fifo.as_os_str()]);
        let fifo_writer = Some(wait_for_reader(fifo));
        let waiter = start(&["true".as_ref()]);
        eventually("the second process waits", PAUSE, waits);
        Self {
            fifo_writer,
            children: [holder, waiter],
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.fifo_writer.take());
        for child in &mut self.children {
            // This fails only if another call has already waited for the child.
            let _ = child.wait();
        }
    }
}
