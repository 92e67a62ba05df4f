//! Processes: whether a command can be started, forking, and what a parent owes its children.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
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
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    match program.as_bytes() {
        [] => Vec::new(),
        name if name.contains(&b'/') => vec![PathBuf::from(program)],
        _ => {
            // The C library's default where PATH is not set.
            let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
            let folders = std::env::split_paths(path);
            folders.map(|folder| folder.join(program)).collect()
        }
    }
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
    Parent(ForkedProcess),
    /// The new one, which must not return into what its parent was at, but [run](run_and_exit) something.
    Child,
}

/// Splits this process in two.
///
/// # Errors
/// When the kernel gives no process, or there is more than one thread: the new process would have
/// one only, and whatever the others were at would stay half done in it for ever.
pub fn fork() -> io::Result<Forked> {
    // A directory has two links and one for each folder in it; without /proc nobody can tell.
    let threads = std::fs::metadata("/proc/self/task").map(|folder| folder.nlink() - 2);
    if let Ok(2..) = threads {
        return Err(io::Error::other("this process has threads"));
    }
    // SAFETY: there is no other thread, so the new process may do whatever this one may.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        -1 => Err(io::Error::last_os_error()),
        pid => {
            let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            let held = pidfd_open(pid, PidfdFlags::empty()).ok();
            Ok(Forked::Parent(ForkedProcess { pid, held }))
        }
    }
}

/// Runs `work` and ends the process, with nothing done for the parent's objects.
pub fn run_and_exit(work: impl FnOnce()) -> ! {
    let outcome = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: it runs no handlers and never returns.
    unsafe { libc::_exit(i32::from(outcome.is_err())) }
}

/// Has wait(2) look only at the children of this thread. Those are the processes that it has forked
/// and, if it is the first thread of the process, the orphans that the process adopts. The children of
/// other threads, which are hooks, are theirs to reap.
pub(super) const OWN_CHILDREN: WaitOptions =
    WaitOptions::from_bits_retain(libc::__WNOTHREAD as u32);

/// A process that we have forked.
#[derive(Debug)]
pub struct ForkedProcess {
    pub(super) pid: Pid,
    /// By this it is meant and nobody who gets its number later. A kernel before 5.3 has none.
    held: Option<OwnedFd>,
}

impl ForkedProcess {
    /// Lets it go on should somebody have stopped it, and reaps whatever else has ended: where we
    /// are process 1 of a container, everybody's orphans are ours. For the thread that forked it.
    pub fn tend(&self) {
        let news = WaitOptions::NOHANG | WaitOptions::UNTRACED | OWN_CHILDREN;
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
