//! The command before it is one: everything made ready, up to a process that only has to be let go.
//!
//! [`Startable::poise`] forks that process; it waits for a word and then becomes the command. So
//! what a fork costs is spent while the lock is waited for, and the word carries the token.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, getpgrp, getpid, getppid, set_parent_process_death_signal, setpgid,
};

use super::inherited;
use super::process::{Forked, fork};
use super::signal::Mask;

/// The variable that the token is told in.
const TOKEN: &str = "DLOCK_TOKEN";

/// Room for the variable, the longest token and the NUL byte.
const MOST_OF_TOKEN: usize = TOKEN.len() + 1 + 20 + 1;

/// The word that carries no token: a grant's is at least 1.
const NO_TOKEN: [u8; 8] = [0; 8];

/// Which process group a command is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// One of its own.
    Own,
    /// That of this process, where the signals of a terminal arrive.
    Shared(Pid),
}

impl Group {
    /// The group for a command of this process, which shares a terminal with it or not.
    #[must_use]
    pub fn of_command(shares_terminal: bool) -> Self {
        match shares_terminal {
            true => Self::Shared(getpgrp()),
            false => Self::Own,
        }
    }
}

/// What a command gets as stdin, stdout and stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// What dlock was started with, be it nothing.
    AsGiven,
    /// What this process has.
    AsTheyAre,
}

/// A command made ready to be started.
pub struct Startable {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    mask: Mask,
    group: Group,
    streams: Streams,
}

impl Startable {
    /// Makes `command`, a program and its arguments, ready with our environment and, over it,
    /// `additions`. It will have the signal mask `mask`.
    ///
    /// # Errors
    /// When a text has a NUL byte in it.
    pub fn new(
        command: &[OsString],
        additions: &[(&str, String)],
        mask: Mask,
        group: Group,
    ) -> io::Result<Self> {
        let arguments: Result<Vec<CString>, _> = command
            .iter()
            .map(|argument| CString::new(argument.as_bytes()))
            .collect();
        let arguments = arguments?;
        let environment: Result<Vec<CString>, _> = std::env::vars_os()
            // Most programs take the first of two of a name, so that an outer dlock's would win.
            .filter(|(name, _)| name != TOKEN && !additions.iter().any(|(added, _)| name == added))
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .chain(additions.iter().map(|(name, value)| variable(name, value)))
            .map(CString::new)
            .collect();
        Ok(Self {
            program: arguments.first().cloned().unwrap_or_default(),
            arguments,
            environment: environment?,
            mask,
            group,
            streams: Streams::AsGiven,
        })
    }

    /// The same, with these streams.
    #[must_use]
    pub const fn on(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Forks the process that will become the command.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor, or this process has more than one thread.
    pub fn poise(self) -> io::Result<Poised> {
        let (word, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (failure, failed) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let parent = getpid();
        match fork()? {
            Forked::Parent(process) => Ok(Poised {
                pid: process.pid,
                own_group: self.group == Group::Own,
                go: File::from(go),
                failure: File::from(failure),
            }),
            Forked::Child(child) => {
                drop((go, failure));
                child.run(|| {
                    let error = self.wait_and_run(File::from(word), parent);
                    // No number: it was never let go.
                    if let Some(errno) = error.raw_os_error() {
                        // Fails only if nobody is left to tell.
                        let _ = File::from(failed).write_all(&errno.to_ne_bytes());
                    }
                })
            }
        }
    }

    /// In the new process: waits for the token and becomes the command. Returns why it did not.
    ///
    /// All that can be done before the token comes is, and its page of memory touched: whoever waits
    /// for the lock pays for what is done after.
    fn wait_and_run(self, mut word: File, parent: Pid) -> io::Error {
        // The parent may be dead already, and then its death is no news to the kernel.
        let orphaned = match set_parent_process_death_signal(Some(Signal::KILL)) {
            Ok(()) => getppid() != Some(parent),
            Err(error) => return error.into(),
        };
        if orphaned {
            return io::ErrorKind::BrokenPipe.into();
        }
        if self.streams == Streams::AsGiven {
            inherited::restore_streams();
        }
        inherited::restore_signals();
        if self.group == Group::Own
            && let Err(error) = setpgid(None, None)
        {
            return error.into();
        }
        let arguments = pointers(&self.arguments);
        let mut environment = pointers(&self.environment);
        let mut variable = Vec::with_capacity(MOST_OF_TOKEN);
        write_token(&mut variable, u64::MAX);

        let mut token = [0; 8];
        if word.read_exact(&mut token).is_err() {
            return io::ErrorKind::BrokenPipe.into();
        }
        if token != NO_TOKEN {
            write_token(&mut variable, u64::from_ne_bytes(token));
            environment.insert(0, variable.as_ptr().cast());
        }
        // Only now: a signal that a terminal sends while we wait is not the command's.
        if let Group::Shared(group) = self.group
            && let Err(error) = setpgid(None, Some(group))
        {
            return error.into();
        }
        self.mask.apply();
        // SAFETY: the texts and the arrays of pointers to them, each ending with a null pointer,
        // outlive the call, which returns only if it fails.
        unsafe {
            libc::execvpe(
                self.program.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
            );
        }
        io::Error::last_os_error()
    }
}

/// Pointers to `texts` and a null pointer, with room for one more.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    let mut pointers = Vec::with_capacity(texts.len() + 2);
    pointers.extend(texts.iter().map(|text| text.as_ptr()));
    pointers.push(std::ptr::null());
    pointers
}

/// The variable with `token`, as the C library has it.
fn write_token(variable: &mut Vec<u8>, token: u64) {
    variable.clear();
    // Writing to a Vec cannot fail.
    let _ = write!(variable, "{TOKEN}={token}\0");
}

fn variable(name: &str, value: &str) -> Vec<u8> {
    format!("{name}={value}").into_bytes()
}

/// A process that waits for its token to become the command; it ends by itself when this is
/// dropped before.
#[derive(Debug)]
pub struct Poised {
    pub(super) pid: Pid,
    pub(super) own_group: bool,
    go: File,
    failure: File,
}

impl Poised {
    /// Lets it become the command, with `token` as its `DLOCK_TOKEN`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn start(&mut self, token: u64) -> io::Result<()> {
        self.go.write_all(&token.to_ne_bytes())
    }

    /// Lets it become the command, with nothing added to its environment.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn start_as_it_is(&mut self) -> io::Result<()> {
        self.go.write_all(&NO_TOKEN)
    }

    /// Why it did not become the command, once it has ended; none if it did.
    pub fn failure(&mut self) -> Option<io::Error> {
        let mut errno = [0; 4];
        self.failure.read_exact(&mut errno).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }

    /// The descriptors by which this process holds on to the other.
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.go.as_fd(), self.failure.as_fd()]
    }
}
