//! Processes: whether a command can be started, forking, and what a parent owes its children.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_parent_process_death_signal, setpgid, wait,
};

use super::{clock, signal};

/// How long the kernel may take to bury a thread that was joined: a join returns a moment before. It
/// takes microseconds.
const BURIAL: Duration = Duration::from_secs(1);

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
    if program.is_empty() {
        return Err(Unstartable::NotFound);
    }
    let path = match program.as_bytes().contains(&b'/') {
        // One empty folder: the path is that of the file.
        true => OsStr::new(""),
        // The C library's default where PATH is not set.
        false => path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin")),
    };
    let mut refused = Unstartable::NotFound;
    for folder in std::env::split_paths(path) {
        let file = folder.join(program);
        let error = match access(&file, Access::EXEC_OK) {
            _ if file.is_dir() => io::ErrorKind::IsADirectory.into(),
            Ok(()) => return Ok(()),
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => error.into(),
        };
        refused = Unstartable::NotExecutable(error);
    }
    Err(refused)
}

/// Runs `work` in a new process, which ends with it. `kept` is for this process alone: the new one drops it
/// first, as this one drops what `work` owns.
///
/// # Errors
/// When the kernel gives no process, or there is more than one thread: the new process would have
/// one only, and whatever the others were at would stay half done in it for ever.
pub fn fork<K>(kept: K, work: impl FnOnce()) -> io::Result<(ForkedProcess, K)> {
    // A directory has two links and one for each folder in it; without /proc nobody can tell.
    let has_threads = || std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() > 3);
    let until = clock::now() + BURIAL;
    while has_threads() {
        if clock::now() >= until {
            return Err(io::Error::other("this process has threads"));
        }
        thread::yield_now();
    }
    // SAFETY: there is no other thread, so the new process may do whatever this one may.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(kept);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: it never returns, and does nothing for other objects of this process.
        unsafe { libc::_exit(i32::from(outcome.is_err())) }
    }
    // It is -1 after an error.
    let pid = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)?;
    let held = pidfd_open(pid, PidfdFlags::empty()).ok();
    Ok((ForkedProcess { pid, held }, kept))
}

/// Has the kernel kill this process when the thread of `parent` that has forked it ends.
///
/// # Errors
/// When that has ended already.
pub(super) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent died before, there is no signal.
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
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
                signal::send(pid.as_raw_pid(), libc::SIGCONT);
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

/// Leaves the process group that we were started in, so that no signal to that group reaches us, and
/// takes `name` for lists of processes.
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
