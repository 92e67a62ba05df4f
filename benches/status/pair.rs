//! A process that holds a lock and a process that waits for it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::fifo::{eventually, make_fifo, reader_came};

/// Pause between two checks for the waiter.
const PAUSE: Duration = Duration::from_millis(20);

/// A holder and a waiter, which end when this value is dropped.
pub(crate) struct Pair {
    /// Write end of the fifo; the holder's command ends when it is closed.
    stay: Option<File>,
    children: [Child; 2],
}

impl Pair {
    /// Starts both with `lock`, which runs a command under the lock. Returns when the first holds the lock and `waits`
    /// returns true for the second.
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
            // It can only fail if the child was waited for already.
            let _ = child.wait();
        }
    }
}
