//! What `/proc` tells of the processes above and below this one. Each is known by its number and its
//! start, so that a process that gets the number of a dead one is never signalled in its place.
//!
//! Read-only but for `Process::signal`. Holds one or two descriptors at a time, however many processes
//! there are. Process ids are those of this process's own namespace; what `/proc` hides (another
//! namespace, `hidepid`) is not there.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::iter;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// A process. Its number may pass to another one, which started later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// In clock ticks since boot.
    pub(super) started: u64,
}

impl Process {
    /// Whether it is there. It may be dead, but not reaped.
    fn is_there(self) -> bool {
        look(self.pid).is_ok_and(|(process, _)| process == self)
    }

    /// Sends `signals` to it. Returns false if it is gone, or the kernel gives no descriptor.
    pub(super) fn signal(self, signals: &[Signal]) -> bool {
        let pid = Pid::from_raw(self.pid);
        let Some(Ok(held)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        // PERM: it is another user's, and stays so.
        let send = |signal: &Signal| {
            matches!(pidfd_send_signal(&held, *signal), Ok(()) | Err(Errno::PERM))
        };
        // What is held from now on may have got the number before.
        self.is_there() && signals.iter().all(send)
    }
}

/// Finds all processes below `children`, which are children of this process, and these themselves. Also
/// returns whether nothing was missed; what is born or loses its parent meanwhile may be missed.
pub(super) fn find(children: &[i32]) -> (Vec<Process>, bool) {
    let mut found = known(own_pid(), children);
    let mut is_complete = found.len() == children.len();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = children_of(parent.pid);
        let known = known(parent.pid, children.as_deref().unwrap_or_default());
        is_complete &= children.is_ok_and(|children| children.len() == known.len());
        // If its number has passed on, these are the children of somebody else.
        match known.is_empty() || parent.is_there() {
            true => found.extend(known),
            false => is_complete = false,
        }
    }
    (found, is_complete)
}

/// Those of `children` that are there and still have the parent `parent`.
fn known(parent: i32, children: &[i32]) -> Vec<Process> {
    let found = children.iter().filter_map(|pid| look(*pid).ok());
    let found = found.filter(|(_, above)| *above == parent);
    found.map(|(process, _)| process).collect()
}

/// The children of this thread, as wait(2) knows them with
/// [`OWN_CHILDREN`](super::process::OWN_CHILDREN). Where the kernel keeps no such list, those of the
/// whole process.
pub(super) fn own_children() -> io::Result<Vec<i32>> {
    listed(Path::new("/proc/thread-self")).or_else(|_| children_by_parent(own_pid()))
}

/// The children of the process `pid`: by the kernel's own list where it keeps one, else by asking
/// every process for its parent.
fn children_of(pid: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        match listed(&thread) {
            Ok(list) => children.extend(list),
            // The thread has ended, or the kernel keeps no list.
            Err(_) if !thread.exists() => {}
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(children)
}

fn listed(thread: &Path) -> io::Result<Vec<i32>> {
    let list = fs::read_to_string(thread.join("children"))?;
    Ok(list.split_whitespace().filter_map(number).collect())
}

fn children_by_parent(pid: i32) -> io::Result<Vec<i32>> {
    // Fails without /proc, where there would be nobody.
    look(pid)?;
    let processes =
        fs::read_dir("/proc")?.filter_map(|entry| number(entry.ok()?.file_name().to_str()?));
    Ok(processes
        .filter(|process| parent(*process) == Some(pid))
        .collect())
}

/// Whether the process `pid` is a descendant of this one.
pub(super) fn is_below_us(pid: u32) -> bool {
    let mut ancestors = line(pid.cast_signed()).skip(1);
    ancestors.any(|ancestor| ancestor == own_pid())
}

/// Whether a process called `name` whose parent is `pid` is above this one.
#[must_use]
pub fn is_above_us(name: &CStr, pid: u32) -> bool {
    let is_called = |process| {
        fs::read(format!("/proc/{process}/comm"))
            .is_ok_and(|comm| comm.strip_suffix(b"\n") == Some(name.to_bytes()))
    };
    let is_child = |process| parent(process).is_some_and(|above| above.cast_unsigned() == pid);
    line(own_pid()).any(|process| is_child(process) && is_called(process))
}

/// The process `pid`, its parent, that one's parent, and so on, as far as `/proc` shows them.
fn line(pid: i32) -> impl Iterator<Item = i32> {
    iter::successors(Some(pid), |pid| parent(*pid))
}

/// None for a process that `/proc` does not show, or whose parent it hides.
fn parent(pid: i32) -> Option<i32> {
    look(pid)
        .ok()
        .map(|(_, parent)| parent)
        .filter(|parent| *parent > 0)
}

fn own_pid() -> i32 {
    getpid().as_raw_pid()
}

/// The process that has the number `pid`, and its parent.
fn look(pid: i32) -> io::Result<(Process, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Words 4 and 22. The second is a name in brackets that may hold anything.
    let words = stat.rsplit_once(')').map(|(_, after_name)| after_name);
    let mut words = words.unwrap_or_default().split_whitespace().skip(1);
    let parent = words.next().and_then(number);
    let started = words.nth(17).and_then(|word| word.parse().ok());
    match (parent, started) {
        (Some(parent), Some(started)) => Ok((Process { pid, started }, parent)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
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
    fn all_ways_to_find_children_find_the_same() {
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
            assert!(found.expect("/proc is there").contains(&pid));
        }
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
    }

    #[test]
    fn an_ancestor_is_known_by_its_name_and_its_parent() {
        let name = fs::read("/proc/self/comm").expect("/proc is there");
        let name = CString::new(name.trim_ascii_end()).expect("no NUL byte");
        assert!(is_above_us(&name, parent_id()));
        assert!(!is_above_us(c"another", parent_id()));
        assert!(!is_above_us(&name, u32::MAX));
    }
}
