//! The command as a process: whether it can be started, starting it, signalling it, its end.
//!
//! Only the thread that holds [`Child`] reaps and signals it, so that a signal can never reach a
//! process that got the same number later.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::signal;

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

/// A running command.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    own_group: bool,
}

impl Child {
    /// Starts `program` with stdin, stdout, stderr and all inherited descriptors as they are and
    /// with `environment` over ours.
    ///
    /// With `own_group` it leads a process group of its own; without, a terminal's signals reach
    /// it as they reach us.
    ///
    /// # Errors
    /// Those of `execve(2)`, as the case that the shell would report.
    ///
    /// # Panics
    /// If the kernel gave a process a number that is not positive.
    pub fn spawn(
        program: &OsStr,
        arguments: &[OsString],
        environment: &[(&str, String)],
        own_group: bool,
    ) -> Result<Self, Unstartable> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        if own_group {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                Unstartable::NotFound
            } else {
                Unstartable::NotExecutable(error)
            }
        })?;
        // The standard library's handle is let go (that neither waits nor kills): its wait reaps,
        // and we must know of an end before that.
        let pid = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process id is a positive number");
        Ok(Self { pid, own_group })
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
