//! A tree: a process and all its descendants, in any process group or session. This module signals the whole tree of a
//! command and detects when the tree is dead. The module `ward` does the same for a process that dlock has not started.
//!
//! The process that uses a [`CommandTree`] must be a [subreaper](super::process::become_subreaper). When a process of the
//! tree dies, its children become children of the subreaper, so every process of the tree remains a descendant of the
//! subreaper. Only the thread that holds the [`CommandTree`] reaps these processes, so the kernel cannot reuse the id of a
//! child before this thread has reaped the child.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, wait, waitid};
use serde::{Deserialize, Serialize};

use super::pending_child::PendingChild;
use super::proc::{Process, find, own_children};
use super::process::OWN_CHILDREN;
use super::signal;
use crate::lease::instant::BootInstant;

/// The way in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExitReason {
    /// The command exited with this status.
    Exited(u8),
    /// This signal killed the command.
    Killed(i32),
}

impl From<ExitStatus> for ExitReason {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            None => Self::Killed(status.signal().unwrap_or(libc::SIGKILL)),
        }
    }
}

/// Maximum number of processes in [`Leftovers::shown`]. The message with them must fit into a packet.
const MAX_SHOWN: usize = 3;

/// Processes of the tree that were alive when the command ended, and were then killed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Leftovers {
    /// Number of the processes.
    pub number: u32,
    /// The first processes: the id and the name, which is empty if `/proc` hides the process.
    pub shown: Vec<(u32, String)>,
}

impl Leftovers {
    /// Returns the living processes among `found`.
    pub(super) fn among(found: impl IntoIterator<Item = Process>) -> Self {
        let named = found.into_iter().filter_map(|process| {
            let name = process.name_if_alive()?;
            Some((process.pid.cast_unsigned(), name))
        });
        let mut shown: Vec<(u32, String)> = named.collect();
        let number = u32::try_from(shown.len()).unwrap_or(u32::MAX);
        shown.truncate(MAX_SHOWN);
        Self { number, shown }
    }
}

/// The processes that run under the leases.
pub trait Tree {
    /// Returns true if no process of the tree is alive.
    #[must_use]
    fn reap(&mut self) -> bool;

    /// Returns how the root ended. None if it has not ended or was never a child of this process.
    fn end(&self) -> Option<ExitReason>;

    /// Returns the processes that the root left when it ended.
    fn leftovers(&self) -> &Leftovers;

    /// Sends `signal` to the root, but not to its descendants. Returns false if the kernel refused this, because the root
    /// has become another user.
    #[must_use]
    fn signal_root(&self, signal: i32) -> bool;

    /// Sends SIGKILL to every living process of the tree. Returns the id of a process that is not dead yet, or 0 if `/proc`
    /// does not show it. None if there is no such process. Call this method only if [`reap`](Self::reap) returned false. The
    /// caller must repeat the call until the tree is dead, because a process that is forked during the call may be missed.
    #[must_use]
    fn kill_all(&mut self) -> Option<u32>;

    /// Signals every process that `broadcast` must still reach. Returns true if no further call is necessary: the
    /// search found no such process and no sign that the search was incomplete, or `/proc` is not mounted. The caller
    /// must repeat the call until it returns true.
    #[must_use]
    fn send(&mut self, broadcast: &mut Broadcast) -> bool;

    /// Returns a descriptor that becomes readable when the root ends. None if it has ended, or if a SIGCHLD reports its end.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A command and all its descendants.
#[derive(Debug, Default)]
pub struct CommandTree {
    /// The process id of the command. None after the command is reaped, or if the command was never a child of this
    /// process.
    command: Option<Pid>,
    own_group: bool,
    end: Option<ExitReason>,
    leftovers: Leftovers,
}

/// Signals that are sent once to every process of a tree, in several passes over the tree. A process that starts after
/// the first pass has searched the tree, for example because of a signal, does not receive these signals.
#[derive(Debug)]
pub struct Broadcast {
    signals: Vec<Signal>,
    /// The instant at which the broadcast began.
    pub began: BootInstant,
    reached: BTreeSet<Process>,
}

impl Broadcast {
    /// Creates a broadcast of `signals` that begins at `now`.
    #[must_use]
    pub fn new(signals: &[i32], now: BootInstant) -> Self {
        let signals = signals.iter().copied();
        Self {
            signals: signals.filter_map(Signal::from_named_raw).collect(),
            began: now,
            reached: BTreeSet::new(),
        }
    }

    /// Signals each process in `found` that it must still reach with `send`, which returns false if the process no longer
    /// exists. Returns true if there was no process to reach.
    pub(super) fn reach(
        &mut self,
        found: impl IntoIterator<Item = Process>,
        send: impl Fn(Process, &[Signal]) -> bool,
    ) -> bool {
        // The first pass finds all processes before it signals any of them.
        let is_first = self.reached.is_empty();
        let mut is_over = true;
        for process in found {
            let is_later = !is_first && process.is_later_than(self.began);
            if is_later || self.reached.contains(&process) {
                continue;
            }
            // If the found process has died since the search, there may be children that the search missed.
            is_over = false;
            if send(process, &self.signals) {
                self.reached.insert(process);
            }
        }
        is_over
    }
}

/// In place of the id of a process that `/proc` does not show.
const UNKNOWN: i32 = 0;

impl CommandTree {
    /// Creates the tree that has `command` as its root.
    #[must_use]
    pub fn of(command: &PendingChild) -> Self {
        Self {
            command: Some(command.process.pid),
            own_group: command.own_group,
            end: None,
            leftovers: Leftovers::default(),
        }
    }

    /// Creates the tree that this process inherits from a dead process: all children of this thread.
    #[must_use]
    pub fn inherited() -> Self {
        Self::default()
    }

    fn signal_group(&self, signals: &[Signal]) {
        if let Some(command) = self.command {
            let command = command.as_raw_pid();
            let target = if self.own_group { -command } else { command };
            for signal in signals {
                signal::send(target, signal.as_raw());
            }
        }
    }
}

impl Tree for CommandTree {
    fn reap(&mut self) -> bool {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = |command| matches!(waitid(WaitId::Pid(command), peek), Ok(Some(_)));
        if let Some(command) = self.command.filter(|command| has_ended(*command)) {
            // The orphans of the command are children of this process from the moment of the command's end.
            let mut orphans = own_children().unwrap_or_default();
            orphans.retain(|pid| *pid != command.as_raw_pid());
            self.leftovers = Leftovers::among(find(&orphans).0);
            // The kernel does not reuse the group's id before the command is reaped. `kill_all` also kills the
            // remaining processes, but this signal works even if /proc is not mounted.
            self.signal_group(&[Signal::KILL]);
        }
        loop {
            match wait(WaitOptions::NOHANG | OWN_CHILDREN) {
                Ok(Some((pid, status))) if Some(pid) == self.command => {
                    self.command = None;
                    self.end = Some(ExitStatus::from_raw(status.as_raw()).into());
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                // ECHILD: no child remains.
                Err(_) => return true,
            }
        }
    }

    fn end(&self) -> Option<ExitReason> {
        self.end
    }

    fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    fn signal_root(&self, signal: i32) -> bool {
        let command = self.command.map(Pid::as_raw_pid);
        command.is_none_or(|command| signal::send(command, signal))
    }

    fn kill_all(&mut self) -> Option<u32> {
        let mut broadcast = Broadcast::new(&[libc::SIGKILL], BootInstant::new(Duration::ZERO));
        // The signal to the group is immediate, and works even if /proc is not mounted. The search through /proc takes
        // about 0.1 ms for each process.
        self.signal_group(&broadcast.signals);
        let _ = self.send(&mut broadcast);
        let alive = match own_children() {
            Ok(children) => children.first().copied(),
            Err(_) => Some(self.command.map_or(UNKNOWN, Pid::as_raw_pid)),
        };
        alive.and_then(|pid| u32::try_from(pid).ok())
    }

    fn send(&mut self, broadcast: &mut Broadcast) -> bool {
        let children = match own_children() {
            Ok(children) => children,
            // If /proc is not mounted, only the command and its process group can be found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.signal_group(&broadcast.signals);
                return true;
            }
            Err(_) => return false,
        };
        let (found, is_complete) = find(&children);
        let is_over = broadcast.reach(found, |process, signals| {
            if !children.contains(&process.pid) {
                return process.signal(signals);
            }
            for signal in signals {
                signal::send(process.pid, signal.as_raw());
            }
            true
        });
        is_over && is_complete
    }
}
