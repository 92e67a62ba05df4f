//! Processes: whether a command can be started, forking, and what a parent owes its children.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, setpgid, wait,
};

use super::signal;

/// Why a command cannot be started.
#[derive(Debug)]
pub enum Unstartable {
    /// There is no such file.
    NotFound,
    /// The file is there, but this stands against running it.
    NotExecutable(io::Error),
}

impl Unstartable {
    /// What `execve(2)` said, as the case that the shell would report.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        let error = io::Error::from_raw_os_error(errno);
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::NotExecutable(error),
        }
    }
}

/// Looks `program` up as `execvp(3)` will, without running it.
///
/// # Errors
/// The case that the shell would report as 127 or 126. What only `execve(2)` itself finds out (a
/// missing interpreter, say) is known once the command has been let go.
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

/// The files that `program` may be, in the order in which `execvp(3)` tries them.
pub(super) fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
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

/// Which side of a fork this is. Who matches on it owns everything on either side, and closes what
/// is for the other.
pub enum Forked {
    /// The process that was there before.
    Parent(Helper),
    /// The new one.
    Child(Child),
}

/// Splits this process in two.
///
/// # Errors
/// When the kernel gives no process, or there is more than one thread: the new process would have
/// one only, and whatever the others were at would stay half done in it for ever.
pub fn fork() -> io::Result<Forked> {
    forbid_threads()?;
    // SAFETY: there is no other thread, so the new process may do whatever this one may.
    forked(unsafe { libc::fork() })
}

/// The same, for a process that is not counted: no signal tells of its end, and who waits until there
/// are no children left does not wait for this one, however long it lives.
///
/// # Errors
/// As [`fork`].
pub fn fork_uncounted() -> io::Result<Forked> {
    forbid_threads()?;
    // SAFETY: as above. All zeros: nothing is shared, the stack is a copy at the same place, and
    // there is no signal for its end, which is what wait(2) goes by. What the C library does beside
    // this in its fork is for other threads, and for a number of this thread that nobody asks for.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    forked(i32::try_from(pid).unwrap_or(-1))
}

fn forbid_threads() -> io::Result<()> {
    // A directory has two links and one for each folder in it; without /proc nobody can tell.
    let threads = std::fs::metadata("/proc/self/task").map(|folder| folder.nlink() - 2);
    match threads {
        Ok(2..) => Err(io::Error::other("this process has threads")),
        _ => Ok(()),
    }
}

fn forked(pid: i32) -> io::Result<Forked> {
    match pid {
        0 => Ok(Forked::Child(Child(()))),
        pid => Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .map(|pid| Forked::Parent(Helper::new(pid)))
            .ok_or_else(io::Error::last_os_error),
    }
}

/// The right to be a forked process, which must not return into what its parent was at.
#[must_use]
pub struct Child(());

impl Child {
    /// Runs `work` and ends, with nothing done for the parent's objects.
    pub fn run(self, work: impl FnOnce()) -> ! {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: it runs no handlers and never returns.
        unsafe { libc::_exit(i32::from(outcome.is_err())) }
    }
}

/// A process that we have forked.
#[derive(Debug)]
pub struct Helper {
    pub(super) pid: Pid,
    /// By this it is meant and nobody who gets its number later. A kernel before 5.3 has none.
    held: Option<OwnedFd>,
}

impl Helper {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            held: pidfd_open(pid, PidfdFlags::empty()).ok(),
        }
    }

    /// The descriptor that it is held by.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(AsFd::as_fd)
    }

    /// Lets it go on should somebody have stopped it, and reaps whatever else has ended: where we
    /// are process 1 of a container, everybody's orphans are ours.
    pub fn tend(&self) {
        let news = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = wait(news) {
            if pid == self.pid && status.stopped() {
                signal::send(pid.as_raw_nonzero().get(), libc::SIGCONT);
            }
        }
    }

    /// Kills it, unless it is dead.
    pub fn kill(&self) {
        if let Some(held) = &self.held {
            // Fails when it is dead.
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }
}

/// Makes this process the heir of all its descendants: those whose parent dies become its children.
///
/// # Errors
/// When the kernel is older than 3.4.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Leaves the group of whoever started us, so that no signal to that group reaches us, and takes
/// `name` for those who list processes.
///
/// # Errors
/// When this process leads its session.
pub fn stand_apart(name: &CStr) -> io::Result<()> {
    // Fails only on a name that is too long, and is nothing but a label.
    let _ = rustix::thread::set_name(name);
    Ok(setpgid(None, None)?)
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
