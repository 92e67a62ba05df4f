//! The command as a process: whether it can be started, starting it, signalling it, its end.
//!
//! Only the thread that holds [`Child`] reaps and signals it, so that a signal can never reach a
//! process that got the same number later.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::signal::{self, Mask};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

/// Why a command cannot be started.
#[derive(Debug)]
pub enum Unstartable {
    /// There is no such file.
    NotFound,
    /// The file is there, but this stands against running it.
    NotExecutable(io::Error),
}

/// Looks `program` up as `execvp(3)` will, without running it.
///
/// # Errors
/// The case that the shell would report as 127 or 126. What only `execve(2)` itself finds out (a
/// missing interpreter, say) comes from [`Child::spawn`].
pub fn look_up(program: &OsStr, path: Option<&OsStr>) -> Result<(), Unstartable> {
    let mut refused = None;
    for candidate in candidates(program, path) {
        match executable(&candidate) {
            Ok(()) => return Ok(()),
            Err(error) if is_absent(&error) => {}
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or(Unstartable::NotFound, Unstartable::NotExecutable))
}

fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(program)];
    }
    // The C library's default where PATH is not set.
    let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .collect()
}

fn executable(file: &Path) -> io::Result<()> {
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    access(file, Access::EXEC_OK)?;
    Ok(())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// A command made ready to be started: all that can be done beforehand.
pub struct Startable {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    mask: Mask,
    own_group: bool,
}

impl Startable {
    /// Makes `command`, a program and its arguments, ready with our environment and, over it,
    /// `additions`. It will have the signal mask `mask`.
    ///
    /// With `own_group` it will lead a process group of its own; without, a terminal's signals
    /// reach it as they reach us.
    ///
    /// # Errors
    /// When a text has a NUL byte in it.
    pub fn new(
        command: &[OsString],
        additions: &[(&str, String)],
        mask: Mask,
        own_group: bool,
    ) -> io::Result<Self> {
        let arguments: Result<Vec<CString>, _> = command
            .iter()
            .map(|argument| CString::new(argument.as_bytes()))
            .collect();
        let arguments = arguments?;
        let environment: Result<Vec<CString>, _> = std::env::vars_os()
            .filter(|(name, _)| !additions.iter().any(|(added, _)| name == added))
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .chain(additions.iter().map(|(name, value)| variable(name, value)))
            .map(CString::new)
            .collect();
        Ok(Self {
            program: arguments.first().cloned().unwrap_or_default(),
            arguments,
            environment: environment?,
            mask,
            own_group,
        })
    }

    /// Adds a variable that becomes known only now.
    ///
    /// # Errors
    /// When it has a NUL byte in it.
    pub fn add(&mut self, name: &str, value: &str) -> io::Result<()> {
        let added = format!("{name}=");
        self.environment
            .retain(|variable| !variable.as_bytes().starts_with(added.as_bytes()));
        self.environment.push(CString::new(variable(name, value))?);
        Ok(())
    }

    /// The new process's number. `posix_spawn` and not the standard library, which cannot set a
    /// signal mask but by a much slower fork.
    fn spawn(&self) -> io::Result<i32> {
        let pointers = |texts: &[CString]| -> Vec<*mut libc::c_char> {
            let texts = texts.iter().map(|text| text.as_ptr().cast_mut());
            texts.chain([std::ptr::null_mut()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        if self.own_group {
            flags |= libc::POSIX_SPAWN_SETPGROUP;
        }
        let flags = i16::try_from(flags).map_err(io::Error::other)?;
        let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
        let mut defaults = MaybeUninit::<libc::sigset_t>::uninit();
        let mut pid = 0;
        // SAFETY: `attributes` and `defaults` are initialised before they are used and destroyed
        // after; the texts and the arrays of pointers to them, each ending with a null pointer,
        // outlive the call, which does not change them; a group of 0 means a new one. SIGPIPE is
        // set back because the Rust runtime, and not whoever started us, has set it to be ignored.
        let failed = unsafe {
            libc::posix_spawnattr_init(attributes.as_mut_ptr());
            libc::sigemptyset(defaults.as_mut_ptr());
            libc::sigaddset(defaults.as_mut_ptr(), libc::SIGPIPE);
            libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), defaults.as_ptr());
            libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), self.mask.as_ptr());
            libc::posix_spawnattr_setpgroup(attributes.as_mut_ptr(), 0);
            libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags);
            let failed = libc::posix_spawnp(
                &raw mut pid,
                self.program.as_ptr(),
                std::ptr::null(),
                attributes.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
            );
            libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
            failed
        };
        match failed {
            0 => Ok(pid),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn variable(name: &str, value: &str) -> Vec<u8> {
    format!("{name}={value}").into_bytes()
}

/// A running command.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    own_group: bool,
}

impl Child {
    /// Starts what `command` says, with stdin, stdout, stderr and all inherited descriptors as
    /// they are.
    ///
    /// # Errors
    /// Those of `execve(2)`, as the case that the shell would report.
    ///
    /// # Panics
    /// If the kernel gave a process a number that is not positive.
    pub fn spawn(command: &Startable) -> Result<Self, Unstartable> {
        let pid = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unstartable::NotFound,
            _ => Unstartable::NotExecutable(error),
        })?;
        Ok(Self {
            pid: Pid::from_raw(pid).expect("a process id is a positive number"),
            own_group: command.own_group,
        })
    }

    /// How the command ended, if it did. What is left of its process group is killed first: while
    /// the dead leader is not reaped, its number cannot belong to anybody else.
    ///
    /// After `Some` there is nothing more to ask.
    #[must_use]
    pub fn ended(&self) -> Option<End> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.pid), look | WaitIdOptions::NOWAIT).ok()??;
        self.stop(libc::SIGKILL);
        let status = waitid(WaitId::Pid(self.pid), look).ok()??;
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            (None, signal) => End::Killed(signal.unwrap_or(libc::SIGKILL)),
        };
        Some(end)
    }

    /// Sends `signal` to the command itself, as whoever sent it to us would have done.
    pub fn forward(&self, signal: i32) {
        signal::send(self.pid.as_raw_nonzero().get(), signal);
    }

    /// Sends `signal` to the command and, where it leads its own process group, to all of that.
    pub fn stop(&self, signal: i32) {
        let pid = self.pid.as_raw_nonzero().get();
        signal::send(if self.own_group { -pid } else { pid }, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{Unstartable, look_up};

    #[test]
    fn a_command_is_looked_up_as_the_shell_does() {
        let path = Some(OsStr::new("/nonexistent:/etc:/bin:/usr/bin"));
        assert!(look_up(OsStr::new("sh"), path).is_ok());
        assert!(look_up(OsStr::new("/bin/sh"), None).is_ok());
        for absent in ["no-such-command", "", "/nonexistent/x", "/etc/passwd/x"] {
            let found = look_up(OsStr::new(absent), path);
            assert!(matches!(found, Err(Unstartable::NotFound)), "{absent:?}");
        }
        for refused in ["passwd", "/etc/passwd", "/etc"] {
            let found = look_up(OsStr::new(refused), Some(OsStr::new("/etc")));
            assert!(
                matches!(found, Err(Unstartable::NotExecutable(_))),
                "{refused:?}"
            );
        }
    }
}
