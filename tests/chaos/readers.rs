//! Those who read what each run writes to standard error, and may be stopped: one pipe and one thread a run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What fills the pipe of a stopped reader. No message has it, and no reader passes it on.
const FILLER: u8 = 0;

#[derive(Default)]
pub(crate) struct Readers {
    pipes: Mutex<BTreeMap<u64, Pipe>>,
    changed: Condvar,
}

/// The pipe of a run that is not over.
struct Pipe {
    /// Our own end, for filling it.
    writer: PipeWriter,
    is_stopped: bool,
    /// Whether its reader has noticed that.
    waits: bool,
}

impl Readers {
    /// Takes on `run`, which writes to `writer`, until [`Readers::leave`].
    pub(crate) fn join(&self, run: u64, writer: PipeWriter) {
        let pipe = Pipe {
            writer,
            is_stopped: false,
            waits: false,
        };
        self.locked().insert(run, pipe);
    }

    /// Forgets `run`, whose dlock is over: its reader comes to the end of what is written.
    pub(crate) fn leave(&self, run: u64) {
        self.locked().remove(&run);
        self.changed.notify_all();
    }

    /// Copies what `run` writes to `said`, until nobody can write any more.
    pub(crate) fn copy(&self, run: u64, mut from: PipeReader, mut said: File) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            self.wait(run);
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let text = buffer[..length].iter().copied();
            let text: Vec<u8> = text.filter(|byte| *byte != FILLER).collect();
            said.write_all(&text)?;
        }
    }

    /// Waits for as long as the reader of `run` is stopped.
    fn wait(&self, run: u64) {
        let mut pipes = self.locked();
        while let Some(pipe) = pipes.get_mut(&run).filter(|pipe| pipe.is_stopped) {
            pipe.waits = true;
            self.changed.notify_all();
            let waited = self.changed.wait(pipes);
            pipes = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the reader of `run` and fills its pipe; whether the run was there.
    pub(crate) fn stop(&self, run: u64) -> bool {
        let mut pipes = self.locked();
        let Some(pipe) = pipes.get_mut(&run) else {
            return false;
        };
        pipe.is_stopped = true;
        // A reader that waits for something to read notices only then.
        if pipe.writer.write_all(&[FILLER]).is_err() {
            return false;
        }
        while let Some(pipe) = pipes.get_mut(&run) {
            if pipe.waits {
                fill(&pipe.writer);
                return true;
            }
            let waited = self.changed.wait(pipes);
            pipes = waited.unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Lets the reader of `run` read on.
    pub(crate) fn go_on(&self, run: u64) {
        if let Some(pipe) = self.locked().get_mut(&run) {
            (pipe.is_stopped, pipe.waits) = (false, false);
        }
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Pipe>> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills a pipe to the last byte.
fn fill(writer: &PipeWriter) {
    /// Opened once more: the flag belongs to the opening, and the run's own must not have it.
    const O_NONBLOCK: i32 = 0o4000;
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut options = OpenOptions::new();
    let pipe = options.write(true).custom_flags(O_NONBLOCK).open(path);
    let mut pipe = pipe.expect("a pipe can be opened once more");
    for length in [4096, 1] {
        while pipe.write(&[FILLER; 4096][..length]).is_ok() {}
    }
}
