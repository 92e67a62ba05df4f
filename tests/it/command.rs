//! Commands for dlock to run that a test can observe and control: they write to a fifo when they run, and continue when
//! the test writes to another. No test has to guess how long anything takes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::cli_runner::{PATIENCE, eventually};

/// A temporary folder for the fifos and files of one test.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the fifo `name`.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success(), "mkfifo {name}");
        path
    }
}

/// A file that a command locks. Every process that the command starts inherits the descriptor and with it the lock, so
/// the kernel shows if any of them is alive, independently of dlock.
pub(crate) struct Witness(PathBuf);

impl Witness {
    pub(crate) fn on(stage: &Stage) -> Self {
        Self(stage.path("witness"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns true if no process holds the lock on the file: none has started, or all have ended.
    pub(crate) fn is_alone(&self) -> bool {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.0);
        let file = file.expect("the witness can be opened");
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

/// Returns the text that a command writes to `fifo`, without surrounding blanks. Panics if none arrives in time.
#[track_caller]
pub(crate) fn heard(fifo: &Path) -> String {
    let (sender, receiver) = mpsc::channel();
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        let text = fs::read_to_string(fifo).expect("a fifo can be read");
        // The receiver is gone if the test has failed.
        let _ = sender.send(text);
    });
    let text = receiver
        .recv_timeout(PATIENCE)
        .expect("the command writes to the fifo");
    text.trim().to_owned()
}

/// Writes `word` to `fifo`, which lets a command that reads it continue. Waits until the command reads.
#[track_caller]
pub(crate) fn tell(fifo: &Path, word: &str) {
    /// Makes `open` fail while there is no reader; without this flag it would wait for one forever.
    const O_NONBLOCK: i32 = 0o4000;
    let mut open = None;
    eventually("the command reads the fifo", || {
        let mut options = OpenOptions::new();
        open = options.write(true).custom_flags(O_NONBLOCK).open(fifo).ok();
        open.is_some()
    });
    let mut fifo = open.expect("it was opened");
    writeln!(fifo, "{word}").expect("the fifo takes a word");
}

/// Sends `signal` (a name without SIG, or a number) to the process `pid`.
#[track_caller]
pub(crate) fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill runs").success(), "kill -{signal} {pid}");
}

/// Returns true if the process `pid` exists and is not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}
