//! Runs the `dlock` program and says what came of it.
//!
//! Every run starts without any `DLOCK_` variable of the machine. [`Outcome::expect`] compares
//! status and output in one go and prints all of it when one of them is wrong.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::servers::Database;

/// How long anything that must happen may take before a test fails: far above what a busy machine
/// needs, far below a test run's patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program, about to be run.
#[must_use]
pub(crate) struct Dlock {
    command: Command,
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    output: Option<[JoinHandle<String>; 2]>,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Dlock {
    /// `dlock` with `arguments`, without a server.
    pub(crate) fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DLOCK_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).stdin(Stdio::null());
        Self { command }
    }

    /// `dlock` with `arguments` on `database`, by TCP.
    pub(crate) fn on<S: AsRef<OsStr>>(
        database: &Database,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(arguments).env("DLOCK_URL", database.url())
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn stdin(mut self, stdin: Stdio) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Starts it and comes back at once.
    #[track_caller]
    pub(crate) fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dlock starts");
        let stdout = reader(child.stdout.take().expect("stdout is a pipe"));
        let stderr = reader(child.stderr.take().expect("stderr is a pipe"));
        Running {
            child,
            output: Some([stdout, stderr]),
        }
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Outcome {
        self.start().wait()
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("the pipe is readable");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal` (a name without SIG, or a number) to dlock.
    #[track_caller]
    pub(crate) fn signal(&self, signal: &str) {
        crate::command::signal(self.pid(), signal);
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be asked")
            .is_some()
    }

    /// Waits for the end, which must come.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Outcome {
        eventually("dlock ends", || self.is_over());
        let status = self.child.wait().expect("dlock can be waited for");
        let readers = self.output.take().expect("a run is waited for once");
        let [stdout, stderr] = readers.map(|reader| reader.join().expect("the output was read"));
        Outcome {
            status: status.code(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only after a failed assertion is there anything left to kill.
        let _ = self.child.kill();
    }
}

impl Outcome {
    /// Asserts the status, the whole of stdout, and that stderr holds `stderr` (nothing at all if
    /// that is empty).
    #[track_caller]
    pub(crate) fn expect(&self, status: i32, stdout: &str, stderr: &str) {
        let said = match stderr {
            "" => self.stderr.is_empty(),
            text => self.stderr.contains(text),
        };
        assert!(
            self.status == Some(status) && self.stdout == stdout && said,
            "expected status {status}, stdout {stdout:?}, stderr with {stderr:?}, got {self:#?}"
        );
    }
}

/// Waits until `condition` holds, which must be soon.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < 4 * PATIENCE, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
