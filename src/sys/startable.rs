//! The command before it is one: everything made ready, up to a process that only has to be let go.
//!
//! [`Startable::poise`] starts that process; it waits for a word and then becomes the command. So
//! what a start costs is spent while the lock is waited for, and the word carries the token.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpgrp, getpid};

use super::process::candidates;
use super::signal::Mask;
use super::vfork::{self, NO_TOKEN, Plan, TOKEN, VARIABLE};

/// What runs a script that does not say what it is for, as the C library has it.
const SHELL: &CStr = c"/bin/sh";

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
    programs: Vec<CString>,
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
        let path = std::env::var_os("PATH");
        let program = arguments
            .first()
            .map_or(OsStr::new(""), |first| OsStr::from_bytes(first.as_bytes()));
        let programs: Result<Vec<CString>, _> = candidates(program, path.as_deref())
            .into_iter()
            .map(|file| CString::new(file.into_os_string().into_vec()))
            .collect();
        let environment: Result<Vec<CString>, _> = std::env::vars_os()
            // Most programs take the first of two of a name, so that an outer dlock's would win.
            .filter(|(name, _)| name != TOKEN && !additions.iter().any(|(added, _)| name == added))
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .chain(additions.iter().map(|(name, value)| variable(name, value)))
            .map(CString::new)
            .collect();
        Ok(Self {
            programs: programs?,
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

    /// Starts the process that will become the command.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor.
    pub fn poise(self) -> io::Result<Poised> {
        let (word, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (failure, failed) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let own_group = self.group == Group::Own;
        let pid = vfork::start(self.plan(
            [word.as_raw_fd(), failed.as_raw_fd()],
            [go.as_raw_fd(), failure.as_raw_fd()],
        ))?;
        Ok(Poised {
            pid,
            own_group,
            go: File::from(go),
            failure: File::from(failure),
        })
    }

    fn plan(self, [word, failed]: [RawFd; 2], not_ours: [RawFd; 2]) -> Plan {
        // Never freed, as the rest of the plan.
        let texts = |texts: Vec<CString>| -> Vec<*const c_char> {
            texts.leak().iter().map(|text| text.as_ptr()).collect()
        };
        let null = std::ptr::null();
        let mut arguments = texts(self.arguments);
        arguments.push(null);
        let rest = arguments.iter().skip(1).copied();
        let script = [SHELL.as_ptr(), null].into_iter().chain(rest).collect();
        let mut environment = vec![null];
        environment.extend(texts(self.environment));
        environment.push(null);
        Plan {
            programs: self.programs,
            arguments,
            script,
            environment,
            mask: self.mask,
            group: self.group,
            streams: self.streams,
            parent: getpid(),
            word,
            failed,
            not_ours,
            variable: [0; VARIABLE],
        }
    }
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
