//! Processes: checks whether a command can be started, forks, and sets the relations between parent and child.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_parent_process_death_signal, setpgid, setsid, wait, waitpid,
};

use super::boot_timer::wait_for;
use super::{clock, signal};

/// Maximum time to wait for the kernel to remove a joined thread. A join returns shortly before the removal, which
/// normally takes microseconds.
const THREAD_REMOVAL_LIMIT: Duration = Duration::from_secs(1);

/// Maximum time to wait for the end of a process that is about to end, and the interval at which this process checks if the
/// kernel has no pidfds.
const END_LIMIT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The name of a monitor in process lists.
pub const MONITOR: &CStr = c"lease-monitor";

/// The name in process lists of a process that holds a lease in the background.
pub const HOLDER: &CStr = c"lease-holder";

/// The reason why a command cannot be started.
#[derive(Debug)]
pub enum ExecError {
    /// The file does not exist.
    NotFound,
    /// The file exists, but this error prevents its execution.
    NotExecutable(io::Error),
}

impl ExecError {
    /// Converts the error number of `execve(2)` to the corresponding case of a shell.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        let error = io::Error::from_raw_os_error(errno);
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::NotExecutable(error),
        }
    }
}

/// Looks up `program` in the same way as `execvp(3)`, without running it.
///
/// # Errors
/// Fails with [`ExecError::NotFound`] where a shell would return 127, and with [`ExecError::NotExecutable`] where a
/// shell would return 126. An error that only `execve(2)` can detect, such as a missing interpreter, occurs only when
/// the command is started.
pub fn find_program(program: &OsStr, path: Option<&OsStr>) -> Result<(), ExecError> {
    if program.is_empty() {
        return Err(ExecError::NotFound);
    }
    let is_path = program.as_bytes().contains(&b'/');
    let mut refused = ExecError::NotFound;
    for file in candidates(program, path) {
        let error = match access(&file, Access::EXEC_OK) {
            _ if file.is_dir() => io::ErrorKind::IsADirectory.into(),
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => continue,
            // A folder in PATH that is not a folder is skipped.
            Err(Errno::NOTDIR) if !is_path => continue,
            Err(error) => error.into(),
        };
        refused = ExecError::NotExecutable(error);
    }
    Err(refused)
}

/// Returns the files that `execvp(3)` tries for `program`, in order.
pub(super) fn candidates(program: &OsStr, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let path = match program.as_bytes().contains(&b'/') {
        // An empty search path has one empty folder, so the joined path is `program` itself.
        true => OsStr::new(""),
        // If PATH is not set, the C library uses this search path.
        false => path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin")),
    };
    std::env::split_paths(path).map(move |folder| folder.join(program))
}

/// Runs `work` in a new process, which exits when `work` returns. The new process drops its copy of `kept` before it
/// runs `work`. This process keeps `kept` and drops all values that `work` owns.
///
/// # Errors
/// Fails if the kernel cannot create a process, or if this process has more than one thread. If this
/// process had other threads, the new process would contain only a copy of the forking thread, and could wait forever
/// for a lock that another thread held during the fork.
pub fn fork<K>(kept: K, work: impl FnOnce()) -> io::Result<(ForkedProcess, K)> {
    let Some(process) = split()? else {
        drop(kept);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the call never returns, and runs no destructor or exit handler.
        unsafe { libc::_exit(i32::from(outcome.is_err())) }
    };
    Ok((process, kept))
}

/// Continues in two processes. Returns the new process in this process, and None in the new process.
///
/// # Errors
/// Fails in the same cases as [`fork`].
pub fn split() -> io::Result<Option<ForkedProcess>> {
    // The link count of this directory is two plus the number of threads, because each thread has a subdirectory. If
    // /proc is not mounted, the number of threads is unknown and counts as one.
    let has_threads = || std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() > 3);
    let until = clock::now() + THREAD_REMOVAL_LIMIT;
    while has_threads() {
        if clock::now() >= until {
            return Err(io::Error::other("this process has threads"));
        }
        thread::yield_now();
    }
    // SAFETY: this process has no other thread, so the new process may do everything that this process may do.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        return Ok(None);
    }
    // fork(2) returns -1 after an error.
    let pid = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
    Ok(Some(ForkedProcess { pid, pidfd }))
}

/// Makes the kernel kill this process when the thread of `parent` that forked this process ends.
///
/// # Errors
/// Fails if `parent` has already ended.
pub(super) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent died before this call, the kernel sends no signal.
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Restricts wait(2) to the children of this thread: the processes that the thread has forked and, if it is the first
/// thread of the process, the orphans that the process adopts. The children of all other threads are hooks, which those
/// threads reap.
pub(super) const OWN_CHILDREN: WaitOptions =
    WaitOptions::from_bits_retain(libc::__WNOTHREAD as u32);

/// A process that this process has forked.
#[derive(Debug)]
pub struct ForkedProcess {
    pub(super) pid: Pid,
    /// A pidfd, which never refers to a later process with the same id. None if the kernel could not create a pidfd,
    /// for example because the kernel is older than Linux 5.3.
    pidfd: Option<OwnedFd>,
}

impl ForkedProcess {
    /// Resumes the process if it has been stopped, and reaps all children of this thread that have ended. Such children
    /// can be orphans that this process has adopted, for example as process 1 of a container. Call this method only on
    /// the thread that forked the process.
    pub fn resume_and_reap(&self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | OWN_CHILDREN;
        while let Ok(Some((pid, status))) = wait(options) {
            if pid == self.pid && status.stopped() {
                signal::send(pid.as_raw_pid(), libc::SIGCONT);
            }
        }
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// Returns how the process has ended, and reaps it. None if it is alive, or already reaped. Call this method only on the
    /// thread that forked the process.
    #[must_use]
    pub fn try_wait(&self) -> Option<ExitStatus> {
        let waited = waitpid(Some(self.pid), WaitOptions::NOHANG | OWN_CHILDREN);
        let (_, status) = waited.ok()??;
        Some(ExitStatus::from_raw(status.as_raw()))
    }

    /// Sends `signal` to the process. Call this method only before the process is reaped.
    pub fn signal(&self, signal: i32) {
        signal::send(self.pid.as_raw_pid(), signal);
    }

    /// Waits until the process has ended, but at most `END_LIMIT`, and reaps it. Call this method only on the thread that
    /// forked the process.
    pub fn wait(&self) {
        let until = clock::now() + END_LIMIT;
        let options = WaitOptions::NOHANG | OWN_CHILDREN;
        // The call fails if the process is already reaped.
        while let Ok(None) = waitpid(Some(self.pid), options) {
            let left = until.since(clock::now());
            if left.is_zero() {
                return;
            }
            match &self.pidfd {
                Some(pidfd) => drop(wait_for([pidfd.as_fd()], Some(left))),
                None => drop(wait_for([], Some(POLL_INTERVAL))),
            }
        }
    }

    /// Kills the process. Has no effect if the process is already dead, or if the kernel could not create a pidfd for
    /// it, for example because the kernel is older than Linux 5.3.
    pub fn kill(&self) {
        if let Some(pidfd) = &self.pidfd {
            // The call fails if the process is dead.
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

/// Makes this process a subreaper: if the parent of a descendant dies, the descendant normally becomes a child of this
/// process.
///
/// # Errors
/// Fails on Linux before 3.4.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Makes this process the leader of a new session without a terminal, and sets `name` as its name in process lists.
///
/// # Errors
/// Fails if this process is the leader of a process group.
pub fn begin_session(name: &CStr) -> io::Result<()> {
    // A failure of this call does not matter for the session.
    let _ = rustix::thread::set_name(name);
    setsid()?;
    Ok(())
}

/// Moves this process to a new process group, and sets `name` as its name, and `name` and `about` as its command line in
/// process lists. The process then no longer receives signals to the group in which it was started.
///
/// # Errors
/// Fails if this process is a session leader.
pub fn detach(name: &CStr, about: &str) -> io::Result<()> {
    // A failure of this call does not matter, because the name is only a label.
    let _ = rustix::thread::set_name(name);
    set_command_line(&format!("{} {about}", name.to_string_lossy()));
    Ok(setpgid(None, None)?)
}

/// Replaces the command line of this process, which must have one thread. No code of this process may read its arguments
/// after this call. Does nothing if `/proc` does not show where the command line is.
fn set_command_line(text: &str) {
    /// Fields after the process name in `/proc/self/stat`: start and end of the command line in memory.
    const START: usize = 45;
    let stat = std::fs::read("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplitn(2, |byte| *byte == b')').next();
    let fields = str::from_utf8(fields.unwrap_or_default()).unwrap_or_default();
    let mut fields = fields.split_whitespace().skip(START);
    let mut address = || fields.next()?.parse::<usize>().ok();
    let (Some(begin), Some(end)) = (address(), address()) else {
        return;
    };
    // The last byte stays 0. Otherwise the kernel would show the environment as a part of the command line.
    let Some(length) = end.checked_sub(begin + 1).filter(|_| begin > 0) else {
        return;
    };
    let text = &text[..text.floor_char_boundary(length)];
    let memory = std::ptr::with_exposed_provenance_mut::<u8>(begin);
    // SAFETY: the kernel has put the command line there, in memory of this process that can be written, and `text` is
    // shorter. No other thread exists, and no code reads the arguments any more.
    unsafe {
        memory.write_bytes(0, length + 1);
        memory.copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{ExecError, find_program};

    #[test]
    fn program_is_looked_up_like_in_a_shell() {
        let path = Some(OsStr::new("/nonexistent:/etc:/bin:/usr/bin"));
        assert!(find_program(OsStr::new("sh"), path).is_ok());
        assert!(find_program(OsStr::new("/bin/sh"), None).is_ok());
        for absent in ["no-such-command", "", "/nonexistent/x"] {
            let found = find_program(OsStr::new(absent), path);
            assert!(matches!(found, Err(ExecError::NotFound)), "{absent:?}");
        }
        for refused in ["passwd", "/etc/passwd", "/etc/passwd/x", "/etc"] {
            let found = find_program(OsStr::new(refused), Some(OsStr::new("/etc")));
            assert!(
                matches!(found, Err(ExecError::NotExecutable(_))),
                "{refused:?}"
            );
        }
    }
}
