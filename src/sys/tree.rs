//! The command's tree: the command, its children, theirs, and so on, whatever groups and sessions
//! they have put themselves in. Signalling all of it, and knowing when it is dead.
//!
//! Works in a process that [adopts orphans](super::process::adopt_orphans): who is left when a
//! parent dies becomes a child of ours, so nobody can slip away. Only the thread that holds the
//! [`Tree`] reaps, so the number of a child of ours cannot come to mean another process; those
//! further down are held by a descriptor before they are signalled.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open,
    pidfd_send_signal, wait, waitid,
};

use super::process::Helper;
use super::signal;
use super::startable::Poised;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

/// What is alive of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The command itself, at least.
    Command,
    /// The command has ended, something that it started has not.
    Rest,
    /// Nothing.
    Nothing,
}

/// A command and all that it started.
#[derive(Debug)]
pub struct Tree {
    /// None once it is reaped, or if it was never ours.
    command: Option<Pid>,
    own_group: bool,
    end: Option<End>,
    /// A child of ours that is no part of it.
    spared: Option<Pid>,
}

impl Tree {
    /// The tree that will grow from `command`.
    #[must_use]
    pub const fn of(command: &Poised) -> Self {
        Self {
            command: Some(command.pid),
            own_group: command.own_group,
            end: None,
            spared: None,
        }
    }

    /// What a process that has died left us: all children that we have but `spared`, which must be
    /// one that is [not counted](super::process::fork_uncounted).
    #[must_use]
    pub fn inherited(spared: Option<&Helper>) -> Self {
        Self {
            command: None,
            own_group: false,
            end: None,
            spared: spared.map(|spared| spared.pid),
        }
    }

    /// Reaps what is dead and tells what is not.
    pub fn reap(&mut self) -> Life {
        self.kill_group_of_the_dead();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.command => {
                    self.command = None;
                    self.end = Some(match status.exit_status() {
                        Some(code) => End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
                        None => End::Killed(status.terminating_signal().unwrap_or(libc::SIGKILL)),
                    });
                }
                Ok(Some(_)) => {}
                Ok(None) if self.command.is_some() => return Life::Command,
                Ok(None) => return Life::Rest,
                // ECHILD: there is none left.
                Err(_) => return Life::Nothing,
            }
        }
    }

    /// How the command ended, if it did.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Sends `signal` to the command itself, as whoever sent it to dlock would have done.
    pub fn signal_command(&self, signal: i32) {
        if let Some(command) = self.command {
            signal::send(command.as_raw_nonzero().get(), signal);
        }
    }

    /// Sends `signal` to everything that is alive; tells the number of one of those.
    ///
    /// What is born meanwhile may be missed: who wants all dead repeats this until all is dead.
    #[must_use]
    pub fn signal_all(&self, signal: i32) -> Option<u32> {
        let own = getpid().as_raw_nonzero().get();
        let Ok(mut children) = children(own) else {
            // Without /proc, the command and its group are all that can be found.
            return self.signal_group(signal);
        };
        let spared = self.spared.map(|spared| spared.as_raw_nonzero().get());
        children.retain(|child| Some(*child) != spared);
        let mut below = Vec::new();
        for child in &children {
            descend(*child, &|| true, &mut below);
        }
        for child in &children {
            signal::send(*child, signal);
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            for process in &below {
                // Fails if it has ended, or is another user's: then it is still there next time.
                let _ = pidfd_send_signal(process, signal);
            }
        }
        children
            .first()
            .and_then(|child| u32::try_from(*child).ok())
    }

    fn signal_group(&self, signal: i32) -> Option<u32> {
        let command = self.command?.as_raw_nonzero().get();
        signal::send(if self.own_group { -command } else { command }, signal);
        u32::try_from(command).ok()
    }

    /// Kills the group of a command that is dead and not yet reaped: until then its number belongs
    /// to nobody else. Only a short cut, but one that works without /proc.
    fn kill_group_of_the_dead(&self) {
        if let (Some(command), true) = (self.command, self.own_group) {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Ok(Some(_)) = waitid(WaitId::Pid(command), look) {
                signal::send(-command.as_raw_nonzero().get(), libc::SIGKILL);
            }
        }
    }
}

/// Adds all descendants of `parent` to `found`, held so that nobody else can be meant. `pinned`
/// tells whether `parent` is still the process that it was.
fn descend(parent: i32, pinned: &dyn Fn() -> bool, found: &mut Vec<OwnedFd>) {
    for child in children(parent).unwrap_or_default() {
        let Some(pid) = Pid::from_raw(child) else {
            continue;
        };
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // Its number may have passed to another process before we held it. If the parent, being
        // who it was, still calls it its child, it has not.
        let still_there = children(parent).is_ok_and(|children| children.contains(&child));
        if still_there && pinned() {
            descend(child, &|| is_there(&held), found);
            found.push(held);
        }
    }
}

/// Whether a process is there, be it dead and not yet reaped. Nobody else has its number then.
fn is_there(process: &OwnedFd) -> bool {
    // The null signal only asks. Refused means that it is there.
    // SAFETY: the descriptor is open, and a null pointer stands for no further information.
    let refused = unsafe {
        use std::os::fd::AsRawFd;
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            0,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    } < 0;
    !refused || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The children of the process `pid`: by the kernel's own list where it keeps one, else by asking
/// every process for its parent.
fn children(pid: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(number)),
            // The thread has ended, or the kernel keeps no list.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(children)
}

fn children_by_parent(pid: i32) -> io::Result<Vec<i32>> {
    let processes = fs::read_dir("/proc")?.flatten();
    let numbers = processes.filter_map(|process| number(process.file_name().to_str()?));
    Ok(numbers
        .filter(|process| parent(*process) == Some(pid))
        .collect())
}

/// Whether the process `pid` is a descendant of this one.
pub(super) fn is_below_us(pid: u32) -> bool {
    let own = getpid().as_raw_nonzero().get();
    let above = |pid: &i32| parent(*pid).filter(|parent| *parent > 0);
    let ancestors = std::iter::successors(i32::try_from(pid).ok(), above);
    ancestors.skip(1).any(|ancestor| ancestor == own)
}

/// The fourth word of `/proc/N/stat`; the second is a name in brackets that may hold anything.
pub(super) fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    number(after_name.split_whitespace().nth(1)?)
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{children, children_by_parent};

    #[test]
    fn both_ways_to_find_children_find_the_same() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let own = i32::try_from(std::process::id()).expect("a process id is positive");
        let pid = i32::try_from(child.id()).expect("a process id is positive");
        for found in [children(own), children_by_parent(own)] {
            assert!(found.expect("/proc is there").contains(&pid));
        }
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
    }
}
