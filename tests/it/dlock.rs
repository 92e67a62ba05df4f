//! Runs the `dlock` program and says what came of it.
//!
//! Every run starts without any `DLOCK_` variable of the machine. [`Outcome::expect`] compares
//! status and output in one go and prints all of it when one of them is wrong.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Once};
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
    /// Where stderr goes; none: a pipe that is read.
    stderr: Option<Stdio>,
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    stdout: Pipe,
    stderr: Pipe,
}

/// What came out of a pipe so far, and the thread that reads on.
struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
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
        Self::of(Path::new(env!("CARGO_BIN_EXE_dlock")), arguments)
    }

    /// The same with another `program` in dlock's place.
    pub(crate) fn of<S: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        hear_all_signals();
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DLOCK_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).stdin(Stdio::null());
        Self {
            command,
            stderr: None,
        }
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

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn stdin(mut self, stdin: Stdio) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Has stderr go elsewhere than to a pipe that is read.
    pub(crate) fn stderr(mut self, stderr: Stdio) -> Self {
        self.stderr = Some(stderr);
        self
    }

    /// Starts it and comes back at once.
    #[track_caller]
    pub(crate) fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(self.stderr.unwrap_or_else(Stdio::piped))
            .spawn()
            .expect("dlock starts");
        Running {
            stdout: Pipe::read(child.stdout.take().expect("stdout is a pipe")),
            stderr: match child.stderr.take() {
                Some(stderr) => Pipe::read(stderr),
                None => Pipe::read(std::io::empty()),
            },
            child,
        }
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Outcome {
        self.start().wait()
    }
}

/// Sets what is ignored back to what it is for a program that somebody starts by hand: a test run
/// in the background of a script ignores SIGINT and SIGQUIT, and so would everything below it.
pub(crate) fn hear_all_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for number in (1..32).filter(|number| *number != libc::SIGPIPE) {
            // SAFETY: a query and a change of a disposition; no handler of ours is involved, and
            // what is not ignored is put back as it was.
            unsafe {
                let before = libc::signal(number, libc::SIG_DFL);
                if before != libc::SIG_IGN && before != libc::SIG_ERR {
                    libc::signal(number, before);
                }
            }
        }
    });
}

impl Pipe {
    fn read(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut sink = sink.lock().expect("no reader panics");
                sink.extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        let text = self.text.lock().expect("no reader panics");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// All of it, once nobody can write to it any more.
    fn all(&mut self) -> String {
        let reader = self.reader.take().expect("a run is waited for once");
        eventually("everybody has closed the output", || reader.is_finished());
        self.so_far()
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until dlock has said `text` on stderr.
    #[track_caller]
    pub(crate) fn heard(&self, text: &str) {
        let is_said = happens(|| self.said().contains(text));
        assert!(is_said, "never said: {text}; but {:?}", self.said());
    }

    /// What dlock has said on stderr by now.
    pub(crate) fn said(&self) -> String {
        self.stderr.so_far()
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
        Outcome {
            status: status.code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
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
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(happens(condition), "never happened: {what}");
}

/// Waits until `condition` holds; whether it does in the time that there is.
fn happens(mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() >= 4 * PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
