//! Ancestors and descendants of this process, read from `/proc`. A process is identified by its id and its start time,
//! so dlock never signals a new process that has the id of a dead process.
//!
//! Only `Process::signal` changes anything; all other functions only read. The module uses at most three descriptors at
//! a time, regardless of the number of processes. All process ids are ids in this process's own namespace. Processes
//! that `/proc` hides (`hidepid`) are not found, except the children of this process.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::iter;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

use crate::lease::instant::BootInstant;

/// The position of the start time, which is field 22 of a `stat` file, after the name.
const STARTED: usize = 19;

/// Clock ticks per second in `/proc` (`USER_HZ`), on both x86-64 and arm64.
const TICKS: u128 = 100;

/// In place of the start time of a child that `/proc` hides.
const HIDDEN: u64 = 0;

/// A process. The kernel may reuse the id of a dead process for a new process, which has a later start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// The start time, in clock ticks since boot, or [`HIDDEN`].
    pub(super) started: u64,
}

impl Process {
    /// Returns true if the process exists, even if it is dead and not yet reaped.
    fn exists(self) -> bool {
        read_stat(self.pid).is_ok_and(|(process, _)| process == self)
    }

    /// Returns true if the process was started at the instant `at` or later, or in the same clock tick.
    pub(super) fn is_later_than(self, at: BootInstant) -> bool {
        u128::from(self.started) >= at.since_boot().as_millis() * TICKS / 1000
    }

    /// Returns the process that has the id `pid`. None if there is none.
    pub(super) fn find(pid: i32) -> Option<Self> {
        read_stat(pid).ok().map(|(process, _)| process)
    }

    /// Returns the name of the process, which the kernel cuts to 15 bytes. It is empty if `/proc` hides the process. None if
    /// the process is dead, even if a later process has its id.
    pub(super) fn name_if_alive(self) -> Option<String> {
        if self.started == HIDDEN {
            return Some(String::new());
        }
        let stat = fs::read(format!("/proc/{}/stat", self.pid)).ok()?;
        let (before, fields) = split_stat(&stat)?;
        let started = fields.split_whitespace().nth(STARTED);
        let is_later = started.and_then(|it| it.parse().ok()) != Some(self.started);
        let is_dead = is_later || fields.starts_with('Z') || fields.starts_with('X');
        let name = before.splitn(2, |byte| *byte == b'(').nth(1)?;
        (!is_dead).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Sends `signals` to the process. Returns false if the process no longer exists or no descriptor is
    /// available.
    pub(super) fn signal(self, signals: &[Signal]) -> bool {
        let pid = Pid::from_raw(self.pid);
        let pidfd = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(pidfd)) => pidfd,
            // An old kernel or a filter of system calls refuses the call.
            Some(Err(Errno::NOSYS | Errno::PERM)) => return self.signal_by_id(signals),
            Some(Err(_)) | None => return false,
        };
        // EPERM means that the process belongs to another user. A retry would not change this.
        let send = |signal: &Signal| {
            matches!(
                pidfd_send_signal(&pidfd, *signal),
                Ok(()) | Err(Errno::PERM)
            )
        };
        // The id may have been reused before the pidfd was opened.
        self.exists() && signals.iter().all(send)
    }

    /// Like [`signal`](Self::signal), without a pidfd. The id cannot have been reused if the process is a descendant of this
    /// process, unless the process dies and another descendant gets its id in between.
    fn signal_by_id(self, signals: &[Signal]) -> bool {
        // A process of another user, for example of a set-user-id program, refuses the signal.
        let send = |(pid, signal)| matches!(kill_process(pid, signal), Ok(()) | Err(Errno::PERM));
        let is_proven = self.exists() && is_below_us(self.pid.cast_unsigned());
        let pid = Pid::from_raw(self.pid).filter(|_| is_proven);
        pid.is_some_and(|pid| signals.iter().all(|signal| send((pid, *signal))))
    }
}

/// Returns the ids of all descendants of the process `pid`. A process that is forked or loses its parent during the
/// search may be missed.
pub fn descendants(pid: u32) -> impl Iterator<Item = u32> {
    let pid = pid.cast_signed();
    let (found, _) = find_below(pid, &children_of(pid).unwrap_or_default());
    found.into_iter().map(|process| process.pid.cast_unsigned())
}

/// Returns the processes in `children`, which are unreaped children of this thread, and all descendants of these processes.
/// The second value is true if the search found no sign that the list is incomplete. A process that is forked or loses its
/// parent during the search may be missed. A child that `/proc` hides, for example because of `hidepid`, has the start time
/// [`HIDDEN`], and its descendants are missed until they become children of this process.
pub(super) fn find(children: &[i32]) -> (Vec<Process>, bool) {
    let is_hidden = |pid: &&i32| read_stat(**pid).is_err();
    let (hidden, shown): (Vec<i32>, Vec<i32>) = children.iter().partition(is_hidden);
    let (mut found, is_complete) = find_below(own_pid(), &shown);
    found.extend(hidden.into_iter().map(|pid| Process {
        pid,
        started: HIDDEN,
    }));
    (found, is_complete)
}

/// Like [`find`], but `children` are children of the process `parent`.
fn find_below(parent: i32, children: &[i32]) -> (Vec<Process>, bool) {
    let mut found = with_parent(parent, children);
    let mut is_complete = found.len() == children.len();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = children_of(parent.pid);
        let confirmed = with_parent(parent.pid, children.as_deref().unwrap_or_default());
        is_complete &= children.is_ok_and(|children| children.len() == confirmed.len());
        // If the id of the parent was reused, `confirmed` contains the children of a different process.
        match confirmed.is_empty() || parent.exists() {
            true => found.extend(confirmed),
            false => is_complete = false,
        }
    }
    (found, is_complete)
}

/// Returns all descendants of `process`, and false as the second value if the list may be incomplete.
pub(super) fn below(process: Process) -> (Vec<Process>, bool) {
    match children_of(process.pid) {
        Ok(children) => find_below(process.pid, &children),
        Err(_) => (Vec::new(), false),
    }
}

/// Returns the ids of all processes that `/proc` shows.
pub(super) fn all() -> io::Result<impl Iterator<Item = i32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)))
}

/// Returns the processes in `children` that exist and still have the parent `parent`.
fn with_parent(parent: i32, children: &[i32]) -> Vec<Process> {
    let found = children.iter().filter_map(|pid| read_stat(*pid).ok());
    let found = found.filter(|(_, above)| *above == parent);
    found.map(|(process, _)| process).collect()
}

/// The reason why dlock cannot find the processes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcError {
    /// `/proc` is not mounted.
    NotMounted,
    /// `/proc` shows the processes of another process namespace.
    OtherNamespace,
    /// `/proc` does not list the children of this process.
    NoChildren,
}

impl ProcError {
    /// Returns what is wrong, for users.
    #[must_use]
    pub const fn fact(self) -> &'static str {
        match self {
            Self::NotMounted => "/proc is not mounted",
            Self::OtherNamespace => "/proc shows the processes of another process namespace",
            Self::NoChildren => "/proc does not list the children of dlock",
        }
    }

    /// Returns how to repair it, for users.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        "mount it with mount -t proc proc /proc, or start the namespace with unshare --mount-proc"
    }
}

/// Checks that `/proc` shows this process, and lists its children. Otherwise, dlock would not find the descendants of a
/// command.
///
/// # Errors
/// Fails with the reason.
pub fn check() -> Result<(), ProcError> {
    let shown = fs::read_link("/proc/self").map_err(|_| ProcError::NotMounted)?;
    if shown.to_str().and_then(number) != Some(own_pid()) {
        return Err(ProcError::OtherNamespace);
    }
    own_children().map_err(|_| ProcError::NoChildren).map(drop)
}

/// Returns the children of this thread, which are the children that wait(2) reaps with
/// [`OWN_CHILDREN`](super::process::OWN_CHILDREN). Returns the children of the whole process if the kernel provides no
/// list of a thread's children.
pub(super) fn own_children() -> io::Result<Vec<i32>> {
    read_child_list(Path::new("/proc/thread-self")).or_else(|_| children_by_parent(own_pid()))
}

/// Returns the children of the process `pid`. If the kernel provides no list of children, the function reads the parent
/// of every process.
fn children_of(pid: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        match read_child_list(&thread) {
            Ok(list) => children.extend(list),
            // The thread has ended. If the thread still exists, the error means that the kernel provides no list of
            // children.
            Err(_) if !thread.exists() => {}
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(children)
}

fn read_child_list(thread: &Path) -> io::Result<Vec<i32>> {
    let list = fs::read_to_string(thread.join("children"))?;
    Ok(list.split_whitespace().filter_map(number).collect())
}

fn children_by_parent(pid: i32) -> io::Result<Vec<i32>> {
    // Fails if /proc is not mounted. If this check were missing, the result would be an empty list.
    read_stat(pid)?;
    Ok(all()?
        .filter(|process| parent(*process) == Some(pid))
        .collect())
}

/// Returns true if the process `pid` is a descendant of this process.
pub(super) fn is_below_us(pid: u32) -> bool {
    let mut ancestors = ancestry(pid.cast_signed()).skip(1);
    ancestors.any(|ancestor| ancestor == own_pid())
}

/// Returns true if this process, or one of its ancestors, has the name `name` and the parent `pid`.
#[must_use]
pub fn is_above_us(name: &CStr, pid: u32) -> bool {
    let is_child = |process| parent(process).is_some_and(|above| above.cast_unsigned() == pid);
    ancestry(own_pid()).any(|process| is_child(process) && is_called(process, name))
}

/// Returns true if the process `pid` has the name `name`.
pub(super) fn is_called(pid: i32, name: &CStr) -> bool {
    fs::read(format!("/proc/{pid}/comm"))
        .is_ok_and(|comm| comm.strip_suffix(b"\n") == Some(name.to_bytes()))
}

/// Returns true if the parent of the process `pid` is this process or one of its ancestors.
#[must_use]
pub fn is_child_above_us(pid: u32) -> bool {
    let above = parent(pid.cast_signed());
    ancestry(own_pid()).any(|process| Some(process) == above)
}

/// Returns the process `pid` and its ancestors, nearest first, as far as `/proc` shows them.
pub(super) fn ancestry(pid: i32) -> impl Iterator<Item = i32> {
    iter::successors(Some(pid), |pid| parent(*pid))
}

/// Returns the parent of `pid`. None if the process does not exist, or if `/proc` hides the process or its parent.
fn parent(pid: i32) -> Option<i32> {
    read_stat(pid)
        .ok()
        .map(|(_, parent)| parent)
        .filter(|parent| *parent > 0)
}

/// Returns true if this process has a controlling terminal. False if `/proc` is not mounted.
pub(super) fn has_terminal() -> bool {
    // Field 7 is the device number of the terminal, or 0.
    let fields = stat_from_state("/proc/self/stat").unwrap_or_default();
    let terminal = fields.split_whitespace().nth(4);
    terminal.is_some_and(|device| device != "0")
}

fn own_pid() -> i32 {
    getpid().as_raw_pid()
}

/// Reads the process that has the id `pid`, and the id of its parent.
fn read_stat(pid: i32) -> io::Result<(Process, i32)> {
    // The parent is field 4.
    let fields = stat_from_state(&format!("/proc/{pid}/stat"))?;
    let mut words = fields.split_whitespace().skip(1);
    let parent = words.next().and_then(number);
    let started = words.nth(STARTED - 2).and_then(|word| word.parse().ok());
    match (parent, started) {
        (Some(parent), Some(started)) => Ok((Process { pid, started }, parent)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns the fields of a `stat` file from field 3, the state of the process. Field 2 is a name in parentheses that may
/// contain any bytes: the kernel cuts a long name, also in the middle of a character.
pub(super) fn stat_from_state(file: &str) -> io::Result<String> {
    let stat = fs::read(file)?;
    let fields = split_stat(&stat).map(|(_, fields)| fields.to_owned());
    Ok(fields.unwrap_or_default())
}

/// Splits the content of a `stat` file behind the name: the id and the name up to its last parenthesis, and the fields from
/// field 3. None if the content has another form.
fn split_stat(stat: &[u8]) -> Option<(&[u8], &str)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(&stat[end + 1..]).ok()?;
    Some((&stat[..end], fields.trim_start()))
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::process::parent_id;
    use std::process::{Command, Stdio};

    use super::{children_by_parent, children_of, is_above_us, own_children, own_pid};

    #[test]
    fn all_sources_list_the_same_child() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let pid = i32::try_from(child.id()).expect("a process id is positive");
        for found in [
            own_children(),
            children_of(own_pid()),
            children_by_parent(own_pid()),
        ] {
            assert!(found.expect("/proc is mounted").contains(&pid));
        }
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
    }

    #[test]
    fn ancestor_is_found_by_its_name_and_parent() {
        let name = fs::read("/proc/self/comm").expect("/proc is mounted");
        let name = CString::new(name.trim_ascii_end()).expect("no NUL byte");
        assert!(is_above_us(&name, parent_id()));
        assert!(!is_above_us(c"another", parent_id()));
        assert!(!is_above_us(&name, u32::MAX));
    }
}
