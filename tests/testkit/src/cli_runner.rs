//! Runs the `dlock` program and returns its status and output.
//!
//! Every run starts without the `DLOCK_` variables and without the configuration file of the user who runs the tests.
//! [`Outcome::expect`] checks status and output together and prints both if one of them is not as expected.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

use crate::servers::Database;

/// Time within which an expected event happens even on a busy machine. [`eventually`] waits four times as long before
/// it panics.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A program with its arguments and environment, which has not been started.
#[must_use]
pub struct Dlock {
    command: Command,
    /// Destination of stderr. None means a pipe that the test reads.
    stderr: Option<Stdio>,
}

pub struct Running {
    child: Child,
    stdout: Pipe,
    stderr: Pipe,
}

/// The bytes that were read from a pipe so far, and the thread that reads the pipe.
struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub struct Outcome {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Dlock {
    /// Returns `dlock` with `arguments` and without connection settings.
    pub fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self::of(&crate::dlock(), arguments)
    }

    /// Returns `program`, a program other than dlock, with `arguments` and without connection settings for dlock.
    pub fn of<S: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        hear_all_signals();
        let mut command = Command::new(program);
        remove_settings(&mut command);
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        assert!(
            !Path::new("/etc/dlock.cnf").exists(),
            "dlock would read /etc/dlock.cnf in the tests; move this file away"
        );
        command.args(arguments).stdin(Stdio::null());
        Self {
            command,
            stderr: None,
        }
    }

    /// Returns `dlock` with `arguments` that connects to `database` over TCP.
    pub fn on<S: AsRef<OsStr>>(
        database: &Database,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(arguments).env("DLOCK_URL", database.url())
    }

    /// Returns `dlock` with the arguments in `words`, separated by blanks, that connects to `database` over TCP.
    pub fn typed(database: &Database, words: &str) -> Self {
        Self::on(database, words.split(' '))
    }

    /// Returns `dlock` with `arguments` that connects to `database` through `port`, for example the port of a proxy.
    pub fn through<S: AsRef<OsStr>>(
        database: &Database,
        port: u16,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(arguments).env("DLOCK_URL", database.url_through(port))
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Lets the program inherit `descriptor`, which must stay open until the program has started.
    pub fn inherit(mut self, descriptor: RawFd) -> Self {
        let keep = move || {
            // SAFETY: the descriptor is open, and the borrow ends with this call.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
        };
        // SAFETY: the function makes only a system call that is allowed between fork and exec.
        unsafe { self.command.pre_exec(keep) };
        self
    }

    /// Sends stderr to `stderr` instead of a pipe that the test reads.
    pub fn stderr(mut self, stderr: Stdio) -> Self {
        self.stderr = Some(stderr);
        self
    }

    #[track_caller]
    pub fn start(mut self) -> Running {
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

    /// Starts the program, and returns once it has printed `text` on stderr.
    #[track_caller]
    pub fn start_until(self, text: &str) -> Running {
        let running = self.start();
        running.wait_for_output(text);
        running
    }

    #[track_caller]
    pub fn run(self) -> Outcome {
        self.start().wait()
    }

    /// Runs the program, and checks its status and output with [`Outcome::expect`].
    #[track_caller]
    pub fn expect(self, status: i32, stdout: &str, stderr: &str) -> Outcome {
        let outcome = self.run();
        outcome.expect(status, stdout, stderr);
        outcome
    }

    /// Runs the program, and asserts that it succeeds and that the output on stdout contains `text`.
    #[track_caller]
    pub fn shows(self, text: &str) {
        let outcome = self.run().exited(0);
        assert!(outcome.stdout.contains(text), "no {text:?} in {outcome:#?}");
    }
}

/// Removes the variables that configure dlock from the environment of `command`.
pub fn remove_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DLOCK_") {
            command.env_remove(name);
        }
    }
}

/// Resets ignored signals to their default actions, as for a program that is started from a terminal. If a script runs
/// the tests in the background, the test process ignores SIGINT and SIGQUIT, and its descendants would ignore them too.
pub fn hear_all_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for number in (1..32).filter(|number| *number != libc::SIGPIPE) {
            // SAFETY: the block only changes signal dispositions. The block installs no handler and restores the
            // disposition of every signal that was not ignored.
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

    /// Waits until every process has closed the write end of the pipe, and returns everything that was written.
    fn all(&mut self) -> String {
        let reader = self.reader.take().expect("the pipe is read only once");
        eventually("all processes have closed the output", || {
            reader.is_finished()
        });
        self.so_far()
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until dlock has printed `text` on stderr. Panics if dlock does not print `text` in time.
    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        let is_printed = happens(|| self.stderr_so_far().contains(text));
        let printed = self.stderr_so_far();
        assert!(is_printed, "never printed: {text}; but {printed:?}");
    }

    pub fn stdout_so_far(&self) -> String {
        self.stdout.so_far()
    }

    pub fn stderr_so_far(&self) -> String {
        self.stderr.so_far()
    }

    /// Sends `signal` (a name without SIG, or a number) to dlock.
    #[track_caller]
    pub fn signal(&self, signal: &str) {
        crate::command::signal(self.pid(), signal);
    }

    /// Kills dlock and all its descendants at the same time, like the failure of their machine.
    #[track_caller]
    pub fn crash(&self) {
        let mut processes = Vec::new();
        // The kernel may leave out children of a process that is not yet stopped.
        eventually("dlock, its monitor and a command are stopped", || {
            processes = stop_tree(self.pid());
            processes.len() >= 3
        });
        for pid in processes.iter().rev() {
            // The kernel kills the command when its monitor dies.
            signal_if_alive(*pid, Signal::KILL);
        }
    }

    pub fn is_over(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("the status of a child can be read")
            .is_some()
    }

    /// Sends `signal` to dlock like [`Self::signal`], and waits until dlock ends.
    #[track_caller]
    pub fn wait_after(self, signal: &str) -> Outcome {
        self.signal(signal);
        self.wait()
    }

    /// Waits until dlock ends. Panics if dlock does not end in time.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        eventually("dlock ends", || self.is_over());
        let status = self.child.wait().expect("dlock can be waited for");
        Outcome {
            status: status.code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        }
    }
}

/// Stops the process `pid` and its descendants, each before its children, and returns their ids.
fn stop_tree(pid: u32) -> Vec<u32> {
    let mut processes = vec![pid];
    let mut next = 0;
    while let Some(pid) = processes.get(next).copied() {
        next += 1;
        // A short process of the command may have ended since its parent was read.
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        signal_if_alive(pid, Signal::STOP);
        for task in tasks {
            let children = task.expect("a thread").path().join("children");
            let children = fs::read_to_string(children).unwrap_or_default();
            let children = children.split_whitespace();
            processes.extend(children.map(|pid| pid.parse::<u32>().expect("a process id")));
        }
    }
    processes
}

/// Sends `signal` to the process `pid`, unless it has ended.
#[track_caller]
fn signal_if_alive(pid: u32, signal: Signal) {
    let process = Pid::from_raw(pid.cast_signed()).expect("a process id is positive");
    let sent = kill_process(process, signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{pid}: {sent:?}");
}

impl Drop for Running {
    fn drop(&mut self) {
        // The child is alive only after a failed assertion.
        let _ = self.child.kill();
    }
}

impl Outcome {
    /// Asserts that the exit status is `status`, that the output on stdout is exactly `stdout`, and that the output on
    /// stderr contains `stderr`. If `stderr` is empty, asserts that dlock printed nothing on stderr.
    #[track_caller]
    pub fn expect(&self, status: i32, stdout: &str, stderr: &str) {
        let has_stderr = match stderr {
            "" => self.stderr.is_empty(),
            text => self.stderr.contains(text),
        };
        assert!(
            self.status == Some(status) && self.stdout == stdout && has_stderr,
            "expected status {status}, stdout {stdout:?}, stderr with {stderr:?}, got {self:#?}"
        );
    }

    /// Asserts that the exit status is `status`, and returns the outcome.
    #[track_caller]
    pub fn exited(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let document = serde_json::from_str(&self.stdout);
        document.unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Waits until `condition` is true. Panics with the name `what` of the event after four times [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(happens(condition), "never happened: {what}");
}

/// Waits until `condition` is true and returns true, or returns false after four times [`PATIENCE`].
fn happens(mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        let elapsed = started.elapsed();
        if elapsed >= 4 * PATIENCE {
            return false;
        }
        // Many conditions connect to a server, so a long wait checks less often.
        let pause = (elapsed / 20).clamp(Duration::from_millis(5), Duration::from_millis(25));
        thread::sleep(pause);
    }
    true
}
