//! Commands for dlock to run that a test can watch and steer: they announce themselves on a fifo
//! and go on when they are told to. No test has to guess how long anything takes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use crate::dlock::PATIENCE;

/// A folder with the fifos of one test.
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

/// The next line that a command writes to `fifo`; it must come.
#[track_caller]
pub(crate) fn heard(fifo: &Path) -> String {
    let (sender, receiver) = mpsc::channel();
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        let text = fs::read_to_string(fifo).expect("a fifo can be read");
        // Nobody waits any more if the test has failed.
        let _ = sender.send(text);
    });
    let text = receiver
        .recv_timeout(PATIENCE)
        .expect("the command reports");
    text.trim().to_owned()
}

/// Lets a command go on that reads `fifo`.
pub(crate) fn tell(fifo: &Path, word: &str) {
    let mut fifo = OpenOptions::new().write(true).open(fifo).expect("a reader");
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

/// Whether the process `pid` lives: it is there and no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}
