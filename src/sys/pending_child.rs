//! The command before it runs: a process that the monitor forks while dlock still waits for the lock.
//!
//! The process waits for the token of the grant and then executes the command, so that a fork is not
//! part of a hand-over. Its one thread shares no memory with the monitor. It ends without a command
//! when the monitor dies or drops the [`PendingChild`].

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, getpgrp, getpid};

use super::inherited;
use super::process::{ForkedProcess, Unstartable, die_with, fork};

/// A command that can be executed with what dlock was started with: environment, streams, ignored and
/// blocked signals.
pub struct PreparedCommand {
    command: Command,
    /// The process group of a child. None gives it one of its own.
    group: Option<Pid>,
}

impl PreparedCommand {
    /// Prepares `words`, a program and its arguments, with `additions` to the environment. A child that
    /// shares our terminal will be in our process group, where the terminal's signals arrive.
    #[must_use]
    pub fn new(words: &[OsString], additions: &[(&str, String)], shares_terminal: bool) -> Self {
        let (program, arguments) = words.split_first().unzip();
        let mut command = Command::new(program.map_or(OsStr::new(""), OsString::as_os_str));
        command.args(arguments.unwrap_or_default());
        command.envs(additions.iter().map(|(name, value)| (name, value)));
        // SAFETY: these are system calls, and run in a process that does nothing else any more.
        unsafe {
            command.pre_exec(|| {
                inherited::restore_signals();
                inherited::restore_streams();
                Ok(())
            });
        }
        Self {
            command,
            group: shares_terminal.then(getpgrp),
        }
    }

    /// Executes it in place of this process. Returns only if that fails.
    #[must_use]
    pub fn exec(mut self) -> Unstartable {
        Unstartable::from_errno(errno(&self.command.exec()))
    }

    /// Forks the process that will execute the command.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor, or this process has more than one thread.
    pub fn spawn_pending(self) -> io::Result<PendingChild> {
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
        self.command.env("DLOCK_TOKEN", token);
        self.command
            .process_group(self.group.map_or(0, Pid::as_raw_pid));
        Err(self.command.exec())
    }
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
