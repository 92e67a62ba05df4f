//! The tree of a ward: the ward, its descendants, and its strays, which are processes with the variables of the lease in
//! their environment.
//!
//! If the ward dies, its children get another parent, so this module remembers the descendants that it has seen. A descendant
//! that was never seen, has left the tree and lacks the variables is not found.
//!
//! A signal is sent only to a process of a user as whom the ward has run. It is never sent to an ancestor of the ward, to
//! process 1, to a monitor, or to a process that holds a lease in the background and the hooks of such a process.

use std::collections::BTreeSet;
use std::fs;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::process::Signal;

use super::clock;
use super::proc::{Process, all, ancestry, below, is_called};
use super::process::{HOLDER, MONITOR};
use super::tree::{Broadcast, ExitReason, Leftovers, Tree};
use super::ward::{Ward, stack, user_of};
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};

/// Maximum number of lists of all processes in a search.
const MAX_LISTS: usize = 10;

/// Maximum time to wait, after the end of a ward, for processes that may be about to start a program. A busy machine needs
/// some of it.
const EXEC_TIME: Duration = Duration::from_secs(1);

/// The lease whose variables a stray has in its environment.
#[derive(Debug, Clone)]
pub struct WardLease {
    action: String,
    token: u64,
}

impl WardLease {
    /// Creates the lease of `action` with `token`.
    #[must_use]
    pub const fn new(action: String, token: u64) -> Self {
        Self { action, token }
    }

    /// Returns true if `environment`, the content of `/proc/PID/environ`, has the lease as the innermost or as an outer one.
    fn is_in(&self, environment: &[u8]) -> bool {
        let Self { action, token } = self;
        let has = |variable: String| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == variable.as_bytes())
        };
        let line = format!("{action}={token}");
        let has_outer = || {
            let mut variables = environment.split(|byte| *byte == 0);
            let lines = variables.find_map(|it| it.strip_prefix(b"DLOCK_OUTER_TOKENS="));
            let mut lines = lines.unwrap_or_default().split(|byte| *byte == b'\n');
            lines.any(|it| it == line.as_bytes())
        };
        has(format!("DLOCK_TOKEN={token}")) && has(format!("DLOCK_ACTION={action}")) || has_outer()
    }
}

/// A ward, its descendants and its strays.
#[derive(Debug)]
pub struct WardTree {
    ward: Ward,
    lease: WardLease,
    /// The processes that were alive when they were last looked for, the ward included.
    known: BTreeSet<Process>,
    /// The users as whom the ward has run.
    users: BTreeSet<u32>,
    /// True if a process of the tree has died during the latest search, which may have missed a child of it.
    has_changed: bool,
    /// True if the latest search has found a process that may become a stray.
    is_unclear: bool,
    /// Time until which such processes are searched again. None before the end of the ward.
    unclear_until: Option<BootInstant>,
    end: Option<ExitReason>,
    leftovers: Leftovers,
}

impl WardTree {
    /// Creates the tree of `ward`, which works under `lease`.
    #[must_use]
    pub fn new(ward: Ward, lease: WardLease) -> Self {
        Self {
            known: BTreeSet::from([ward.root]),
            users: BTreeSet::from_iter(ward.user),
            ward,
            lease,
            has_changed: false,
            is_unclear: false,
            unclear_until: None,
            end: None,
            leftovers: Leftovers::default(),
        }
    }

    /// Forgets the dead processes, and adds the descendants of the living ones. Reads no file that can block.
    fn find_descendants(&mut self) {
        if !self.ward.has_ended() {
            self.users.extend(user_of(self.ward.root.pid));
        }
        let known = mem::take(&mut self.known);
        for process in &known {
            if process.name_if_alive().is_none() || !self.may_be_signalled(*process) {
                continue;
            }
            self.known.insert(*process);
            for found in below(*process).0 {
                let is_new = !known.contains(&found);
                if is_new && self.may_be_signalled(found) && !self.is_exempt(found) {
                    self.known.insert(found);
                }
            }
        }
    }

    /// Adds the strays and their descendants. The kernel may block a read of the environment of a process that hangs, so the
    /// descendants must be signalled before this call.
    fn find_strays(&mut self) {
        if mutant::is_disabled(Safeguard::Strays) {
            return;
        }
        (self.has_changed, self.is_unclear) = (false, false);
        let (mut visited, mut is_complete) = (BTreeSet::new(), false);
        // A process may fork another one after a list was read, and die before it is visited.
        for _ in 0..MAX_LISTS {
            let Ok(all) = all() else {
                break;
            };
            let new: Vec<i32> = all.filter(|pid| visited.insert(*pid)).collect();
            // An older process cannot have the token.
            let found = new.iter().filter_map(|pid| Process::find(*pid));
            let opened = self.ward.opened;
            for process in found.filter(|process| process.is_later_than(opened)) {
                self.is_unclear |= self.visit(process);
            }
            is_complete = new.is_empty();
            if is_complete {
                break;
            }
        }
        self.is_unclear |= !is_complete;
        let found = self.known.clone();
        self.find_descendants();
        self.has_changed = !found.is_subset(&self.known);
    }

    /// Returns the ids of the processes that are alive.
    #[must_use]
    pub fn members(&mut self) -> Vec<u32> {
        self.find_descendants();
        self.find_strays();
        let members = self.known.iter();
        members.map(|process| process.pid.cast_unsigned()).collect()
    }

    /// Adds `process` if it is a stray. Returns true if it may become one.
    fn visit(&mut self, process: Process) -> bool {
        if self.known.contains(&process) || !self.may_be_signalled(process) {
            return false;
        }
        // Read first, because the process may start a program between the two reads.
        let is_fork = self.ward.stack.is_some() && stack(process.pid) == self.ward.stack;
        let Ok(environment) = fs::read(format!("/proc/{}/environ", process.pid)) else {
            return false;
        };
        if self.lease.is_in(&environment) {
            if !self.is_exempt(process) {
                self.known.insert(process);
            }
            return false;
        }
        (is_fork || environment.is_empty()) && self.may_become_stray(process)
    }

    /// Returns true if `process`, which is a fork of the ward or shows an empty environment, may get the variables of the
    /// lease. A fork has the environment with which the ward was started, until it starts a program, and in the middle of
    /// the start, `/proc` shows an empty environment.
    fn may_become_stray(&self, process: Process) -> bool {
        process.name_if_alive().is_some() && !self.is_exempt(process)
    }

    /// Returns true if `process` is the ward, or has a user of the ward and is neither a holder nor a monitor. A process can
    /// become another user or a holder after it was found.
    fn may_be_signalled(&self, process: Process) -> bool {
        let is_of_user = || user_of(process.pid).is_some_and(|user| self.users.contains(&user));
        let is_of_dlock = || {
            [MONITOR, HOLDER]
                .iter()
                .any(|name| is_called(process.pid, name))
        };
        process == self.ward.root || is_of_user() && !is_of_dlock()
    }

    /// Returns true if `process` is process 1, an ancestor of the ward, or a hook of a holder.
    fn is_exempt(&self, process: Process) -> bool {
        let is_above = process.pid == 1 || self.ward.ancestors.contains(&process);
        is_above || ancestry(process.pid).any(|it| is_called(it, HOLDER))
    }

    /// Signals each known process that `broadcast` must still reach. Returns true if there was none.
    fn signal(&self, broadcast: &mut Broadcast) -> bool {
        if mutant::is_disabled(Safeguard::Ward) {
            return true;
        }
        broadcast.reach(self.known.iter().copied(), |process, signals| {
            self.may_be_signalled(process) && process.signal(signals)
        })
    }
}

impl Tree for WardTree {
    /// The exit status of a process is known only to its parent, so the end of a ward counts as a success.
    fn reap(&mut self) -> bool {
        self.find_descendants();
        if !self.ward.has_ended() {
            return false;
        }
        self.find_strays();
        if self.end.is_none() {
            self.end = Some(ExitReason::Exited(0));
            self.leftovers = Leftovers::among(self.known.iter().copied());
        }
        let now = clock::now();
        let until = *self.unclear_until.get_or_insert(now + EXEC_TIME);
        self.known.is_empty() && !self.has_changed && (!self.is_unclear || now >= until)
    }

    fn end(&self) -> Option<ExitReason> {
        self.end
    }

    fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// A ward gets no signal that was sent to dlock.
    fn signal_root(&self, _signal: i32) -> bool {
        true
    }

    fn kill_all(&mut self) -> Option<u32> {
        let at = BootInstant::new(Duration::ZERO);
        for find in [Self::find_descendants, Self::find_strays] {
            // A process that is stopped forks no child that the search would miss.
            let mut stop = Broadcast::new(&[Signal::STOP.as_raw()], at);
            find(self);
            while !self.signal(&mut stop) {
                find(self);
            }
            self.signal(&mut Broadcast::new(&[Signal::KILL.as_raw()], at));
        }
        let mut alive = self.known.iter().filter(|it| it.name_if_alive().is_some());
        alive.next().map(|process| process.pid.cast_unsigned())
    }

    fn send(&mut self, broadcast: &mut Broadcast) -> bool {
        self.find_descendants();
        let is_over = self.signal(broadcast);
        self.find_strays();
        self.signal(broadcast) && is_over
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.end.is_none().then(|| self.ward.pidfd.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::WardLease;

    #[test]
    fn stray_has_the_token_and_the_action_of_the_lease() {
        let lease = WardLease::new("deploy".to_owned(), 17);
        for (environment, wanted) in [
            ("DLOCK_ACTION=deploy\0DLOCK_TOKEN=17\0", true),
            ("DLOCK_TOKEN=17\0PATH=/bin\0DLOCK_ACTION=deploy\0", true),
            ("DLOCK_ACTION=deploy\0DLOCK_TOKEN=18\0", false),
            ("DLOCK_ACTION=deploy\0DLOCK_TOKEN=170\0", false),
            ("DLOCK_ACTION=deploy2\0DLOCK_TOKEN=17\0", false),
            ("DLOCK_TOKEN=17\0", false),
            ("DLOCK_ACTION=deploy\0", false),
            ("XDLOCK_ACTION=deploy\0DLOCK_TOKEN=17\0", false),
            (
                "DLOCK_ACTION=x\0DLOCK_TOKEN=3\0DLOCK_OUTER_TOKENS=a=1\ndeploy=17\0",
                true,
            ),
            ("DLOCK_OUTER_TOKENS=a=1\ndeploy=18\0", false),
            ("", false),
        ] {
            assert_eq!(
                lease.is_in(environment.as_bytes()),
                wanted,
                "{environment:?}"
            );
        }
    }
}
