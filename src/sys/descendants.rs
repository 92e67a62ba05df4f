//! Processes below this one, as `/proc` lists them. Each is known by its number and its start, so that
//! a process that gets the number of a dead one is never signalled in its place.
//!
//! Read-only but for [`Process::signal`]. Holds one or two descriptors at a time, however many processes
//! there are.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// A process. Its number may pass to another one, which started later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// In clock ticks since boot.
    started: u64,
}

impl Process {
    /// Whether it is there. It may be dead, but not reaped.
    fn is_there(self) -> io::Result<bool> {
        Ok(stat(self.pid)?.started == self.started)
    }

    /// Sends `signals` to it.
    ///
    /// # Errors
    /// When it is gone, or the kernel gives no descriptor.
    pub(super) fn signal(self, signals: &[Signal]) -> io::Result<()> {
        let pid = rustix::process::Pid::from_raw(self.pid).ok_or(io::ErrorKind::NotFound)?;
        let held = pidfd_open(pid, PidfdFlags::empty())?;
        // What is held from now on may have got the number before.
        if !self.is_there()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        for signal in signals {
            match pidfd_send_signal(&held, *signal) {
                // It is another user's, and stays so.
                Ok(()) | Err(Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What was found of a tree.
pub(super) struct Found {
    pub(super) processes: Vec<Process>,
    /// Whether nothing was missed. What is born or loses its parent meanwhile may be missed.
    pub(super) is_complete: bool,
}

/// Finds all processes below `children`, which are children of this process, and these themselves. Leaves
/// out those that started at `limit`, in clock ticks since boot, or later.
pub(super) fn find(children: &[i32], limit: u64) -> Found {
    let mut found = Found {
        processes: Vec::new(),
        is_complete: true,
    };
    found.add(own_pid(), children, limit);
    let mut next = 0;
    while let Some(parent) = found.processes.get(next).copied() {
        next += 1;
        let begin = found.processes.len();
        match children_of(parent.pid) {
            Ok(children) => found.add(parent.pid, &children, limit),
            Err(_) => found.is_complete = false,
        }
        // If its number has passed on, these are the children of somebody else.
        if found.processes.len() > begin && !parent.is_there().unwrap_or(false) {
            found.processes.truncate(begin);
            found.is_complete = false;
        }
    }
    found
}

impl Found {
    fn add(&mut self, parent: i32, children: &[i32], limit: u64) {
        for pid in children.iter().copied() {
            match stat(pid) {
                Ok(stat) if stat.parent == parent => {
                    let started = stat.started;
                    let process = Some(Process { pid, started });
                    self.processes.extend(process.filter(|_| started < limit));
                }
                // It is gone, or has another parent by now.
                _ => self.is_complete = false,
            }
        }
    }
}

/// The children of this thread, as wait(2) knows them with
/// [`OWN_CHILDREN`](super::process::OWN_CHILDREN). Where the kernel keeps no such list, those of the
/// whole process.
pub(super) fn own_children() -> io::Result<Vec<i32>> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => Ok(list.split_whitespace().filter_map(number).collect()),
        Err(_) => children_by_parent(own_pid()),
    }
}

/// The children of the process `pid`: by the kernel's own list where it keeps one, else by asking
/// every process for its parent.
fn children_of(pid: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        match fs::read_to_string(thread.join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(number)),
            // The thread has ended, or the kernel keeps no list.
            Err(_) if !thread.exists() => {}
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(children)
}

fn children_by_parent(pid: i32) -> io::Result<Vec<i32>> {
    // Fails without /proc, where there would be nobody.
    stat(pid)?;
    let mut children = Vec::new();
    for process in fs::read_dir("/proc")? {
        if let Some(process) = process?.file_name().to_str().and_then(number) {
            match stat(process) {
                Ok(stat) if stat.parent == pid => children.push(process),
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(children)
}

/// Whether the process `pid` is a descendant of this one.
pub(super) fn is_below_us(pid: u32) -> bool {
    let ancestors = std::iter::successors(i32::try_from(pid).ok(), |pid| parent(*pid));
    ancestors.skip(1).any(|ancestor| ancestor == own_pid())
}

/// The parent of the process `pid`. None for one that `/proc` does not show, or whose parent it hides.
pub(super) fn parent(pid: i32) -> Option<i32> {
    Some(stat(pid).ok()?.parent).filter(|parent| *parent > 0)
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// What `/proc/N/stat` says of a process.
struct Stat {
    parent: i32,
    started: u64,
}

fn stat(pid: i32) -> io::Result<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Words 4 and 22. The second is a name in brackets that may hold anything.
    let words = stat.rsplit_once(')').map(|(_, after_name)| after_name);
    let mut words = words.unwrap_or_default().split_whitespace().skip(1);
    match (words.next().and_then(number), words.nth(17)) {
        (Some(parent), Some(started)) => Ok(Stat {
            parent,
            started: started.parse().map_err(io::Error::other)?,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{children_by_parent, children_of, own_children, own_pid};

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
}
