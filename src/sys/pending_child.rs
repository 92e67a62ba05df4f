//! The command before it runs: a process that the monitor forks while dlock still waits for the lock.
//!
//! The process waits for the token of the grant and then executes the command, so that a fork is not
//! part of a hand-over. Its one thread shares no memory with the monitor. It ends without a command
//! when the monitor dies or drops the [`PendingChild`].

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, set_parent_process_death_signal};

use super::inherited;
use super::process::{Forked, ForkedProcess, fork, run_and_exit};
use super::signal::Mask;

/// The variable with the fencing token.
const TOKEN: &str = "DLOCK_TOKEN";

/// A command that can be started in a process of its own.
pub struct PreparedCommand {
    command: Command,
    own_group: bool,
}

impl PreparedCommand {
    /// Prepares `words`, a program and its arguments. It will have our environment with `additions`, the
    /// signal mask `mask`, and a process group of its own, or ours if it shares our terminal, whose
    /// signals arrive there.
    #[must_use]
    pub fn new(
        words: &[OsString],
        additions: &[(&str, String)],
        mask: Mask,
        shares_terminal: bool,
    ) -> Self {
        let (program, arguments) = words.split_first().unzip();
        let mut command = Command::new(program.map_or(OsStr::new(""), OsString::as_os_str));
        command.args(arguments.unwrap_or_default());
        command.envs(additions.iter().map(|(name, value)| (name, value)));
        command.process_group(match shares_terminal {
            true => getpgrp().as_raw_nonzero().get(),
            false => 0,
        });
        // SAFETY: these are system calls, and run in a process with one thread.
        unsafe {
            command.pre_exec(move || {
                inherited::restore_signals();
                mask.apply();
                Ok(())
            });
        }
        Self {
            command,
            own_group: !shares_terminal,
        }
    }

    /// Forks the process that will execute the command.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor, or this process has more than one thread.
    pub fn spawn_pending(self) -> io::Result<PendingChild> {
        let (token_reader, token) = io::pipe()?;
        let (failure, mut failure_writer) = io::pipe()?;
        let own_group = self.own_group;
        let parent = getpid();
        match fork()? {
            Forked::Parent(process) => Ok(PendingChild {
                process,
                own_group,
                token,
                failure,
            }),
            Forked::Child => {
                drop((token, failure));
                run_and_exit(|| {
                    if let Err(error) = self.wait_and_exec(parent, token_reader) {
                        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                        // Fails only if nobody is left to read it.
                        let _ = failure_writer.write_all(&errno.to_ne_bytes());
                    }
                })
            }
        }
    }

    /// Returns only if the command is not to run, or cannot be executed.
    fn wait_and_exec(mut self, parent: Pid, mut token: PipeReader) -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut bytes = [0; size_of::<u64>()];
        // If the parent died before the call above, there was no signal. If it drops its end, there is
        // nothing to run.
        if getppid() != Some(parent) || token.read_exact(&mut bytes).is_err() {
            return Ok(());
        }
        self.command
            .env(TOKEN, u64::from_ne_bytes(bytes).to_string());
        inherited::restore_streams();
        Err(self.command.exec())
    }
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

    /// Why the command was not executed, once the process has ended. None if it was.
    pub fn failure(&mut self) -> Option<io::Error> {
        let mut errno = [0; size_of::<i32>()];
        self.failure.read_exact(&mut errno).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }
}
