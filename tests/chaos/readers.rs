//! Reads the standard error of each run through a pipe, with one thread for each run. A fault can stop a reader.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Byte that fills the pipe of a stopped reader. No message contains this byte, and readers do not copy it.
const FILLER: u8 = 0;

#[derive(Default)]
pub(crate) struct Readers {
    pipes: Mutex<BTreeMap<u64, Pipe>>,
    changed: Condvar,
}

/// The pipe of a run that has not ended.
struct Pipe {
    /// Write end that the runner keeps to fill the pipe.
    writer: PipeWriter,
    is_stopped: bool,
    /// True if the reader has detected the stop and waits.
    is_waiting: bool,
}

impl Readers {
    /// Registers `run`, which writes to `writer`, until [`Readers::unregister`].
    pub(crate) fn register(&self, run: u64, writer: PipeWriter) {
        let pipe = Pipe {
            writer,
            is_stopped: false,
            is_waiting: false,
        };
        self.locked().insert(run, pipe);
    }

    /// Removes `run` after its dlock has ended. The reader of `run` can then reach end of file.
    pub(crate) fn unregister(&self, run: u64) {
        self.locked().remove(&run);
        self.changed.notify_all();
    }

    /// Copies the standard error of `run` to `copy`, until no process has the write end of the pipe open.
    pub(crate) fn copy(&self, run: u64, mut from: PipeReader, mut copy: File) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            self.wait(run);
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let text = buffer[..length].iter().copied();
            let text: Vec<u8> = text.filter(|byte| *byte != FILLER).collect();
            copy.write_all(&text)?;
        }
    }

    /// Waits while the reader of `run` is stopped.
    fn wait(&self, run: u64) {
        let mut pipes = self.locked();
        while let Some(pipe) = pipes.get_mut(&run).filter(|pipe| pipe.is_stopped) {
            pipe.is_waiting = true;
            self.changed.notify_all();
            let waited = self.changed.wait(pipes);
            pipes = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the reader of `run` and fills its pipe. Returns false if the run has ended.
    pub(crate) fn stop(&self, run: u64) -> bool {
        let mut pipes = self.locked();
        let Some(pipe) = pipes.get_mut(&run) else {
            return false;
        };
        pipe.is_stopped = true;
        // This write wakes a reader that is blocked in a read.
        if pipe.writer.write_all(&[FILLER]).is_err() {
            return false;
        }
        while let Some(pipe) = pipes.get_mut(&run) {
            if pipe.is_waiting {
                let path = format!("/proc/self/fd/{}", pipe.writer.as_raw_fd());
                return fill(Path::new(&path), FILLER).is_ok();
            }
            let waited = self.changed.wait(pipes);
            pipes = waited.unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Resumes the reader of `run`.
    pub(crate) fn resume(&self, run: u64) {
        if let Some(pipe) = self.locked().get_mut(&run) {
            (pipe.is_stopped, pipe.is_waiting) = (false, false);
        }
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Pipe>> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills the pipe that is open as `path` with `byte` until nothing more can be written.
pub(crate) fn fill(path: &Path, byte: u8) -> io::Result<()> {
    /// `fill` opens a new file description with this flag, because the run's own file description must remain blocking.
    const O_NONBLOCK: i32 = 0o4000;
    let mut options = OpenOptions::new();
    let mut pipe = options.write(true).custom_flags(O_NONBLOCK).open(path)?;
    for length in [4096, 1] {
        while pipe.write(&[byte; 4096][..length]).is_ok() {}
    }
    Ok(())
}
