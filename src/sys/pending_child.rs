//! A process that will execute the command. The monitor forks this process before dlock acquires the lease.
//!
//! The process waits for the tokens of the grants and then executes the command, so no fork is necessary between the
//! grant and the start of the command. The process has one thread and shares no memory with the monitor. The process
//! ends without executing the command if the monitor dies, or drops the [`PendingChild`], before it sends the tokens.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::{Pid, getpgrp, getpid, setpgid};

use super::inherited;
use super::process::{ExecError, ForkedProcess, die_with, fork};

/// The variable with the token of the first lease.
const TOKEN: &str = "DLOCK_TOKEN";

/// The variable with the number of the first lease's slot.
pub const SLOT: &str = "DLOCK_SLOT";

/// The variable with a line `name=token` for each lease.
pub const TOKENS: &str = "DLOCK_TOKENS";

/// A command that will run with the state that dlock inherited (environment, streams, ignored and blocked signals), with
/// additional environment variables, and without hidden ones.
///
/// The arguments and the environment are converted to the form of `execve(2)` before the grant, so that the command
/// starts sooner after the grant. `std::process::Command` would convert them after the grant.
pub struct PreparedCommand {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// The process group of the child. None creates a new group for the child.
    group: Option<Pid>,
    /// The names of the leases under which the command will run.
    names: Vec<String>,
}

impl PreparedCommand {
    /// Prepares the program and the arguments in `words`, with `additions` to the environment and without the variables
    /// in `hidden`. If `shares_terminal` is true, the child will be in the process group of this process, which receives
    /// the terminal's signals.
    #[must_use]
    pub fn new(
        words: &[OsString],
        additions: &[(&str, String)],
        hidden: &[OsString],
        shares_terminal: bool,
    ) -> Self {
        let is_kept = |name: &OsStr| {
            additions.iter().all(|(added, _)| name != *added) && hidden.iter().all(|it| name != it)
        };
        let kept = env::vars_os().filter(|(name, _)| is_kept(name));
        let kept = kept.map(|(name, value)| variable(&name, &value));
        let added = additions
            .iter()
            .map(|(name, value)| variable(name.as_ref(), value.as_ref()));
        Self {
            arguments: words.iter().map(|word| c_string(word.as_bytes())).collect(),
            environment: kept.chain(added).collect(),
            group: shares_terminal.then(getpgrp),
            names: Vec::new(),
        }
    }

    /// Returns this command with the tokens of the leases with these names in its environment. The process waits for them.
    #[must_use]
    pub fn under(self, names: Vec<String>) -> Self {
        Self { names, ..self }
    }

    /// Replaces this process with the command. Returns only if the execution fails.
    #[must_use]
    pub fn exec(self) -> ExecError {
        ExecError::from_errno(errno(&self.execute()))
    }

    /// Forks the process that will execute the command.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process or a descriptor, or if this process has more than one thread.
    pub fn spawn_pending(mut self) -> io::Result<PendingChild> {
        for name in [TOKEN, SLOT, TOKENS] {
            let outer = format!("{name}=");
            (self.environment)
                .retain(|variable| !variable.as_bytes().starts_with(outer.as_bytes()));
        }
        let (token_reader, tokens) = io::pipe()?;
        let (failure, mut failure_writer) = io::pipe()?;
        let (parent, own_group) = (getpid(), self.group.is_none());
        let (process, (tokens, failure)) = fork((tokens, failure), move || {
            if let Err(error) = self.wait_and_exec(parent, token_reader) {
                // The write fails only if the parent no longer reads.
                let _ = failure_writer.write_all(&errno(&error).to_ne_bytes());
            }
        })?;
        Ok(PendingChild {
            process,
            own_group,
            tokens,
            failure,
        })
    }

    /// Waits for the tokens and executes the command. Returns Ok if the parent has dropped its end of the pipe without
    /// sending the tokens, and an error if the parent is dead or the command cannot be executed.
    fn wait_and_exec(mut self, parent: Pid, mut pipe: PipeReader) -> io::Result<()> {
        die_with(parent)?;
        // A token for each name, and the number of the slot.
        let mut numbers = Vec::new();
        for _ in 0..=self.names.len() {
            let mut bytes = [0; size_of::<u64>()];
            if pipe.read_exact(&mut bytes).is_err() {
                // The parent has dropped its end of the pipe, so the command must not run.
                return Ok(());
            }
            numbers.push(u64::from_ne_bytes(bytes));
        }
        let text = |number: Option<&u64>| number.map(u64::to_string).unwrap_or_default();
        let (first, slot) = (text(numbers.first()), text(numbers.last()));
        let leases = self.names.iter().zip(&numbers);
        let lines: Vec<_> = leases
            .map(|(name, token)| format!("{name}={token}"))
            .collect();
        for (name, value) in [(TOKEN, first), (SLOT, slot), (TOKENS, lines.join("\n"))] {
            self.environment
                .push(variable(name.as_ref(), value.as_ref()));
        }
        // Join the group only now, because a waiting process must not receive signals to the terminal's process group.
        setpgid(None, self.group)?;
        Err(self.execute())
    }

    fn execute(&self) -> io::Error {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            let strings = strings.iter().map(|string| string.as_ptr());
            strings.chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let Some(program) = self.arguments.first() else {
            return io::ErrorKind::NotFound.into();
        };
        inherited::restore_signals();
        inherited::restore_streams();
        // SAFETY: both lists end with a null pointer, and the strings live longer than the call.
        unsafe { libc::execvpe(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn variable(name: &OsStr, value: &OsStr) -> CString {
    c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
}

/// Converts the bytes before the first NUL. No argument or variable can contain a NUL.
fn c_string(bytes: &[u8]) -> CString {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// A process that waits for its tokens and then becomes the command.
#[derive(Debug)]
pub struct PendingChild {
    pub(super) process: ForkedProcess,
    pub(super) own_group: bool,
    tokens: PipeWriter,
    failure: PipeReader,
}

impl PendingChild {
    /// Makes the process execute the command under the leases with `tokens`, one for each name, the first of them in `slot`.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn start(&mut self, tokens: impl IntoIterator<Item = u64>, slot: u32) -> io::Result<()> {
        let numbers = tokens.into_iter().chain([u64::from(slot)]);
        let bytes: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
        self.tokens.write_all(&bytes)
    }

    /// Lets the process end without executing the command, and reaps it.
    pub fn cancel(self) {
        drop(self.tokens);
        self.process.wait();
    }

    /// Returns the error number if the command could not be executed. None otherwise. Call this method only after the
    /// process has ended.
    pub fn failure(&mut self) -> Option<i32> {
        let mut errno = [0; size_of::<i32>()];
        self.failure.read_exact(&mut errno).ok()?;
        Some(i32::from_ne_bytes(errno))
    }
}
