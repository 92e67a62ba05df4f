//! The command's tree: the command, its children, theirs, and so on, whatever groups and sessions
//! they have put themselves in. Signalling all of it, and knowing when it is dead.
//!
//! Works in a process that [adopts orphans](super::process::adopt_orphans): who is left when a
//! parent dies becomes a child of ours, so nobody can slip away. Only the thread that holds the
//! [`Tree`] reaps, so the number of a child of ours cannot come to mean another process.

use std::collections::BTreeSet;
use std::io;
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

/// Clock ticks a second in `/proc` (`USER_HZ`), the same on x86-64 and arm64.
const TICKS: u128 = 100;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            None => Self::Killed(status.signal().unwrap_or(libc::SIGKILL)),
        }
    }
}

/// A command and all that it started.
#[derive(Debug, Default)]
pub struct Tree {
    /// None once it is reaped, or if it was never ours.
    command: Option<Pid>,
    own_group: bool,
    end: Option<End>,
}

/// Signals on their way to every process of a tree, each of which gets them once. For that the tree is
/// gone through several times. A process that starts later, because of the signal, say, is left alone.
#[derive(Debug)]
pub struct Broadcast {
    signals: Vec<Signal>,
    /// When it began.
    pub began: BootInstant,
    reached: BTreeSet<Process>,
}

impl Broadcast {
    /// A broadcast of `signals` that begins `now`.
    #[must_use]
    pub fn new(signals: &[i32], now: BootInstant) -> Self {
        let signals = signals.iter().copied();
        Self {
            signals: signals.filter_map(Signal::from_named_raw).collect(),
            began: now,
            reached: BTreeSet::new(),
        }
    }
}

impl Tree {
    /// The tree that will grow from `command`.
    #[must_use]
    pub const fn of(command: &PendingChild) -> Self {
        Self {
            command: Some(command.process.pid),
            own_group: command.own_group,
            end: None,
        }
    }

    /// What a process that has died left us: all children of this thread.
    #[must_use]
    pub fn inherited() -> Self {
        Self::default()
    }

    /// Reaps what is dead. Returns whether that is all of the tree.
    #[must_use]
    pub fn reap(&mut self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = |command| matches!(waitid(WaitId::Pid(command), look), Ok(Some(_)));
        if self.command.is_some_and(has_ended) {
            // Until it is reaped the number of its group is nobody else's. Only a short cut, but one that
            // works without /proc.
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
                // ECHILD: there is none left.
                Err(_) => return true,
            }
        }
    }

    /// How the command ended, if it did.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Sends `signal` to the command itself, as if the sender had sent it there and not to dlock.
    pub fn signal_command(&self, signal: i32) {
        if let Some(command) = self.command {
            signal::send(command.as_raw_pid(), signal);
        }
    }

    /// Sends SIGKILL to everything that is alive. Returns the number of one such process. Repeat this
    /// until all is dead: a process that is born meanwhile may be missed.
    #[must_use]
    pub fn kill_all(&self) -> Option<u32> {
        let mut broadcast = Broadcast::new(&[libc::SIGKILL], BootInstant::new(Duration::ZERO));
        // At once, and whatever /proc says; the rest takes a tenth of a millisecond for each process.
        self.signal_group(&broadcast.signals);
        let _ = self.send(&mut broadcast);
        let command = self.command.map(Pid::as_raw_pid);
        let alive = own_children().map_or(command, |children| children.first().copied());
        alive.and_then(|pid| u32::try_from(pid).ok())
    }

    /// Signals every process that `broadcast` is for and has not reached. Returns whether none was missed
    /// and none was new, so that there is nobody left to reach. Until then repeat this.
    #[must_use]
    pub fn send(&self, broadcast: &mut Broadcast) -> bool {
        let children = match own_children() {
            Ok(children) => children,
            // Without /proc, the command and its group are all that can be found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.signal_group(&broadcast.signals);
                return true;
            }
            Err(_) => return false,
        };
        let began = broadcast.began.since_boot().as_millis() * TICKS / 1000;
        // The first pass finds all before it signals one.
        let is_first = broadcast.reached.is_empty();
        let (found, mut is_complete) = find(&children);
        for process in found {
            let is_later = !is_first && u128::from(process.started) >= began;
            if is_later || broadcast.reached.contains(&process) {
                continue;
            }
            // Reached or gone, it may have left children to us that were not found.
            is_complete = false;
            if children.contains(&process.pid) {
                for signal in &broadcast.signals {
                    signal::send(process.pid, signal.as_raw());
                }
            } else if !process.signal(&broadcast.signals) {
                continue;
            }
            broadcast.reached.insert(process);
        }
        is_complete
    }

    fn signal_group(&self, signals: &[Signal]) {
        if let Some(command) = self.command {
            let command = command.as_raw_pid();
            let whom = if self.own_group { -command } else { command };
            for signal in signals {
                signal::send(whom, signal.as_raw());
            }
        }
    }
}
