//! Finds the processes of a replica, and the processes that are connected to the server.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    parent: u32,
    /// The name that the kernel shows.
    pub(crate) name: String,
    /// `T` if the process is stopped, and `Z` if it is a zombie.
    pub(crate) state: char,
}

/// Returns the process `root` and all its descendants.
pub(crate) fn tree(root: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let all: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut tree: Vec<Process> = all.iter().filter(|it| it.pid == root).cloned().collect();
    let mut next = 0;
    while let Some(parent) = tree.get(next).map(|process| process.pid) {
        tree.extend(all.iter().filter(|it| it.parent == parent).cloned());
        next += 1;
    }
    tree
}

/// Returns true if `pid` has a connection to the local TCP port `port`.
pub(crate) fn is_connected(pid: u32, port: u16) -> bool {
    /// The fields of a line of `/proc/net/tcp`, the value of an established connection, and the field of its inode.
    const REMOTE: usize = 2;
    const STATE: usize = 3;
    const ESTABLISHED: &str = "01";
    const INODE: usize = 9;
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let remote = format!(":{port:04X}");
    let sockets: Vec<String> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields.len() > INODE
                && fields[REMOTE].ends_with(&remote)
                && fields[STATE] == ESTABLISHED
        })
        .map(|fields| format!("socket:[{}]", fields[INODE]))
        .collect();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    descriptors.into_iter().flatten().flatten().any(|entry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        sockets
            .iter()
            .any(|socket| target.as_os_str() == socket.as_str())
    })
}

/// Sends `signal`. A process that has ended gets no signal.
pub(crate) fn send(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.expect("a process id is positive"), signal);
}

/// Reads a process. None if it does not exist.
fn read(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any characters.
    let (start, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some(Process {
        pid,
        name: start.split_once('(')?.1.to_owned(),
        state: words.next()?.chars().next()?,
        parent: words.next()?.parse().ok()?,
    })
}
