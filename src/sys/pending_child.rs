//! The command before it runs: a process that the monitor forks while dlock still waits for the lock.
//!
//! The process waits for the token of the grant and then executes the command, so that a fork is not
//! part of a hand-over. Its one thread shares no memory with the monitor. It ends without a command
//! when the monitor dies or drops the [`PendingChild`].

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::{Pid, getpgrp, getpid, setpgid};

use super::inherited;
use super::process::{ForkedProcess, Unstartable, die_with, fork};

const TOKEN: &str = "DLOCK_TOKEN";

/// A command that can be executed with what dlock was started with: environment, streams, ignored and
/// blocked signals.
///
/// Its arguments and environment have the form that `execve(2)` wants long before it is executed: between a
/// grant and its command every microsecond counts, and `std::process::Command` allocates them then.
pub struct PreparedCommand {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// The process group of a child. None gives it one of its own.
    group: Option<Pid>,
}

impl PreparedCommand {
    /// Prepares `words`, a program and its arguments, with `additions` to the environment. A child that
    /// shares our terminal will be in our process group, where the terminal's signals arrive.
    #[must_use]
    pub fn new(words: &[OsString], additions: &[(&str, String)], shares_terminal: bool) -> Self {
        let is_kept = |name: &OsStr| additions.iter().all(|(added, _)| name != *added);
        let kept = env::vars_os().filter(|(name, _)| is_kept(name));
        let kept = kept.map(|(name, value)| variable(&name, &value));
        let added = additions
            .iter()
            .map(|(name, value)| variable(name.as_ref(), value.as_ref()));
        Self {
            arguments: words.iter().map(|word| c_string(word.as_bytes())).collect(),
            environment: kept.chain(added).collect(),
            group: shares_terminal.then(getpgrp),
        }
    }

    /// Executes it in place of this process. Returns only if that fails.
    #[must_use]
    pub fn exec(self) -> Unstartable {
        Unstartable::from_errno(errno(&self.execute()))
    }

    /// Forks the process that will execute the command.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor, or this process has more than one thread.
    pub fn spawn_pending(mut self) -> io::Result<PendingChild> {
        let outer = format!("{TOKEN}=");
        (self.environment).retain(|variable| !variable.as_bytes().starts_with(outer.as_bytes()));
        let (token_reader, token) = io::pipe()?;
        let (failure, mut failure_writer) = io::pipe()?;
        let (parent, own_group) = (getpid(), self.group.is_none());
        let (process, (token, failure)) = fork((token, failure), move || {
            if let Err(error) = self.wait_and_exec(parent, token_reader) {
                // Fails only if nobody is left to read it.
                let _ = failure_writer.write_all(&errno(&error).to_ne_bytes());
            }
        })?;
        Ok(PendingChild {
            process,
            own_group,
            token,
            failure,
        })
    }

    /// Returns only if the command is not to run, or cannot be executed.
    fn wait_and_exec(mut self, parent: Pid, mut token: PipeReader) -> io::Result<()> {
        die_with(parent)?;
        let mut bytes = [0; size_of::<u64>()];
        if token.read_exact(&mut bytes).is_err() {
            // The parent dropped its end: there is nothing to run.
            return Ok(());
        }
        let token = u64::from_ne_bytes(bytes).to_string();
        self.environment
            .push(variable(TOKEN.as_ref(), token.as_ref()));
        // Not before: signals for the terminal's group are none of a process that only waits.
        setpgid(None, self.group)?;
        Err(self.execute())
    }

    fn execute(&self) -> io::Error {
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            let texts = texts.iter().map(|text| text.as_ptr());
            texts.chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let Some(program) = self.arguments.first() else {
            return io::ErrorKind::NotFound.into();
        };
        inherited::restore_signals();
        inherited::restore_streams();
        // SAFETY: both lists end with a null pointer, and what they point to lives longer than the call.
        unsafe { libc::execvpe(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn variable(name: &OsStr, value: &OsStr) -> CString {
    c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
}

/// `bytes` up to the first NUL: an argument or a variable cannot hold one.
fn c_string(bytes: &[u8]) -> CString {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// A process that waits for its token to become the command.
#[derive(Debug)]
pub struct PendingChild {
    pub(super) process: ForkedProcess,
    pub(super) own_group: bool,
    token: PipeWriter,
    failure: PipeReader,
}

impl PendingChild {
    /// Lets it execute the command, with `token` as its `DLOCK_TOKEN`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn start(&mut self, token: u64) -> io::Result<()> {
        self.token.write_all(&token.to_ne_bytes())
    }

    /// The error of `execve(2)`, once the process has ended. None if it was.
    pub fn failure(&mut self) -> Option<i32> {
        let mut errno = [0; size_of::<i32>()];
        self.failure.read_exact(&mut errno).ok()?;
        Some(i32::from_ne_bytes(errno))
    }
}
