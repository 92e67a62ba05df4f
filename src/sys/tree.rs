//! The command's tree: the command, its children, theirs, and so on, whatever groups and sessions
//! they have put themselves in. Signalling all of it, and knowing when it is dead.
//!
//! Works in a process that [adopts orphans](super::process::adopt_orphans): who is left when a
//! parent dies becomes a child of ours, so nobody can slip away. Only the thread that holds the
//! [`Tree`] reaps, so the number of a child of ours cannot come to mean another process.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, wait, waitid};
use serde::{Deserialize, Serialize};

use super::descendants::{Process, find, own_children};
use super::pending_child::PendingChild;
use super::process::OWN_CHILDREN;
use super::signal;
use crate::lease::instant::BootInstant;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Signals on their way to every process of a tree, each of which gets them once. For that the tree is
/// gone through several times. A process that starts later, because of the signal, say, is left alone.
#[derive(Debug)]
pub struct Broadcast {
    signals: Vec<Signal>,
    began: BootInstant,
    reached: BTreeSet<Process>,
    is_first: bool,
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
            is_first: true,
        }
    }

    /// When it began.
    #[must_use]
    pub const fn began(&self) -> BootInstant {
        self.began
    }

    /// The clock tick before which a process has to have started. For the first pass there is none: it
    /// finds all before it signals one.
    fn limit(&self) -> u64 {
        if self.is_first {
            return u64::MAX;
        }
        // SAFETY: sysconf only asks.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let ticks = u128::try_from(ticks).unwrap_or(100);
        let began = self.began.since_boot().as_nanos() * ticks / 1_000_000_000;
        u64::try_from(began).unwrap_or(u64::MAX)
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
    pub const fn inherited() -> Self {
        Self {
            command: None,
            own_group: false,
            end: None,
        }
    }

    /// Reaps what is dead and tells what is not.
    pub fn reap(&mut self) -> Life {
        self.kill_group_of_the_dead();
        loop {
            match wait(WaitOptions::NOHANG | OWN_CHILDREN) {
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

    /// Sends SIGKILL to everything that is alive. Returns the number of one such process. Repeat this
    /// until all is dead: a process that is born meanwhile may be missed.
    #[must_use]
    pub fn kill_all(&self) -> Option<u32> {
        let began = BootInstant::new(Duration::ZERO);
        let mut broadcast = Broadcast::new(&[libc::SIGKILL], began);
        // At once, and whatever /proc says; the rest takes a tenth of a millisecond for each process.
        self.signal_group(&broadcast.signals);
        let (alive, _) = self.pass(&mut broadcast);
        alive.and_then(|pid| u32::try_from(pid).ok())
    }

    /// Signals every process that `broadcast` is for and has not reached. Returns whether none was missed
    /// and none was new, so that there is nobody left to reach. Until then repeat this.
    #[must_use]
    pub fn send(&self, broadcast: &mut Broadcast) -> bool {
        self.pass(broadcast).1
    }

    /// Goes through the tree once. Returns the number of one living process, and what [`Self::send`] does.
    fn pass(&self, broadcast: &mut Broadcast) -> (Option<i32>, bool) {
        let limit = broadcast.limit();
        broadcast.is_first = false;
        let children = match own_children() {
            Ok(children) => children,
            Err(error) => {
                // Without /proc, the command and its group are all that can be found.
                let has_no_proc = error.kind() == io::ErrorKind::NotFound;
                if has_no_proc {
                    self.signal_group(&broadcast.signals);
                }
                let command = self.command.map(|command| command.as_raw_nonzero().get());
                return (command, has_no_proc);
            }
        };
        let found = find(&children, limit);
        let mut is_complete = found.is_complete;
        for process in found.processes {
            if broadcast.reached.contains(&process) {
                continue;
            }
            // Reached or gone, it may have left children to us that were not found.
            is_complete = false;
            if children.contains(&process.pid) {
                for signal in &broadcast.signals {
                    signal::send(process.pid, signal.as_raw());
                }
            } else if process.signal(&broadcast.signals).is_err() {
                continue;
            }
            broadcast.reached.insert(process);
        }
        (children.first().copied(), is_complete)
    }

    fn signal_group(&self, signals: &[Signal]) {
        if let Some(command) = self.command {
            let command = command.as_raw_nonzero().get();
            let whom = if self.own_group { -command } else { command };
            for signal in signals {
                signal::send(whom, signal.as_raw());
            }
        }
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
