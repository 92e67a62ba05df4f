//! Commands that dlock runs in a test, and that the test can observe and control. A command writes to a fifo when the
//! command runs, and continues when the test writes to another fifo, so the tests need no fixed delays.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, mknodat};
use tempfile::TempDir;

use crate::cli_runner::{Dlock, PATIENCE, Running, eventually};

/// A temporary folder for the fifos and files of one test.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `text` to the file `name`, sets its permissions to `mode`, and returns its path.
    #[track_caller]
    pub fn write(&self, name: &str, mode: u32, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the folder is writable");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the test owns the file");
        path
    }

    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        make_fifo(&path);
        path
    }

    /// Starts `exec`, a `dlock exec`, with the shell script `script` as its command. In the script, `$1` and `$2` are the
    /// fifos `ready` and `go`. Returns once the script has written to `ready`.
    #[track_caller]
    pub fn start(&self, exec: Dlock, script: &str) -> Running {
        self.start_told(exec, script).0
    }

    /// Starts `exec` like [`Self::start`], and also returns the message that the script has written.
    #[track_caller]
    pub fn start_told(&self, exec: Dlock, script: &str) -> (Running, String) {
        let running = self.launch(exec, script);
        (running, self.told())
    }

    /// Starts `exec` like [`Self::start`], but returns at once.
    #[track_caller]
    pub fn launch(&self, exec: Dlock, script: &str) -> Running {
        let exec = exec.args(["--", "sh", "-c", script, "sh"]);
        exec.args([self.fifo("ready"), self.fifo("go")]).start()
    }

    /// Waits for the message that the script writes to `ready`.
    #[track_caller]
    pub fn told(&self) -> String {
        read_message(&self.path("ready"))
    }

    #[track_caller]
    pub fn let_go(&self, word: &str) {
        write_message(&self.path("go"), word);
    }
}

pub fn make_fifo(path: &Path) {
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a fifo can be created");
}

/// A file that a command locks. Every process that the command starts inherits the descriptor and with it the lock, so
/// the lock shows whether any of these processes is alive, independently of dlock.
#[derive(Clone)]
pub struct Witness(PathBuf);

impl Witness {
    pub fn on(stage: &Stage) -> Self {
        Self(stage.path("witness"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Adds a command to `exec` that prints `alone` if no process holds the lock on the file, and otherwise `not alone`.
    pub fn checked_by(&self, exec: Dlock) -> Dlock {
        let script = r#"exec 9>>"$0"; if flock -n 9; then echo alone; else echo not alone; fi"#;
        exec.args(["--", "sh", "-c", script]).arg(&self.0)
    }

    /// Returns true if no process holds the lock on the file, because no process has started or all have ended.
    pub fn is_alone(&self) -> bool {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.0);
        let file = file.expect("the witness can be opened");
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

/// Waits until a command writes to `fifo`, and returns the message without surrounding whitespace. Panics if the
/// command does not write within [`PATIENCE`].
#[track_caller]
pub fn read_message(fifo: &Path) -> String {
    let (sender, receiver) = mpsc::channel();
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        let text = fs::read_to_string(fifo).expect("a fifo can be read");
        // Sending fails if the test has already failed and dropped the receiver.
        let _ = sender.send(text);
    });
    let text = receiver
        .recv_timeout(PATIENCE)
        .expect("the command writes to the fifo");
    text.trim().to_owned()
}

/// Waits for a command to read `fifo`, and writes `word` to `fifo`, so that the command continues.
#[track_caller]
pub fn write_message(fifo: &Path, word: &str) {
    writeln!(wait_for_reader(fifo), "{word}").expect("the fifo can be written");
}

/// Waits until a process has opened `fifo` for reading. Returns the write end.
#[track_caller]
pub fn wait_for_reader(fifo: &Path) -> File {
    let mut options = OpenOptions::new();
    // Without this flag, `open` would wait for a reader.
    options
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut writer = None;
    eventually("a process reads the fifo", || {
        writer = options.open(fifo).ok();
        writer.is_some()
    });
    writer.expect("the fifo is open")
}

/// Sends `signal` (a name without SIG, or a number) to the process `pid`.
#[track_caller]
pub fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill runs").success(), "kill -{signal} {pid}");
}

/// Returns true if the process `pid` exists and is not a zombie.
pub fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}

/// Returns the process id of the only child of the first thread of the process `pid`. For a dlock that has a command, or
/// waits, this is the monitor.
#[track_caller]
pub fn only_child(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("the process exists");
    children.trim().parse().expect("the process has one child")
}
