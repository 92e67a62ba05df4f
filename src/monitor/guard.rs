//! The monitor's own side: one loop over orders, the deadline and children that end.
//!
//! Runs in a process of its own, with one thread. It must never wait for anything but its three
//! sources: no message to a terminal, no database, no lock.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use super::killing::{Killing, next_round};
use super::message::{decode, encode};
use super::{NAME, Order, Start, Word};
use crate::lease::instant::BootInstant;
use crate::supervise::{Act, Blame, CONT, Input, KILL, Supervisor};
use crate::sys::alarm::{Alarm, wait_for};
use crate::sys::link::{Incoming, Link};
use crate::sys::pending_child::{PendingChild, PreparedCommand};
use crate::sys::signal::Inbox;
use crate::sys::tree::{Broadcast, End, Tree};
use crate::sys::{clock, inherited, process};
use crate::twin::{self, Mechanism};

/// Everything that the monitor waits for.
struct Post<'a> {
    front: &'a Link,
    alarm: Alarm,
    children: Inbox,
}

/// Guards `command` until its tree is dead; ends at once if the front goes before it was started.
///
/// # Errors
/// When the kernel lacks what it takes, before the command was started.
pub(super) fn guard(
    front: &Link,
    command: PreparedCommand,
    grace: Duration,
    shares_terminal: bool,
) -> io::Result<()> {
    process::stand_apart(NAME)?;
    process::adopt_orphans()?;
    let post = Post {
        front,
        alarm: Alarm::new()?,
        // Nothing but SIGKILL and SIGSTOP may stop it.
        children: Inbox::open(false)?,
    };
    let mut command = command.spawn_pending()?;
    inherited::close_descriptors();
    let tree = Tree::of(&command);
    let Some(start) = post.wait_for_the_start()? else {
        return Ok(());
    };
    let mut watch = Watch {
        supervisor: Supervisor::new(start.deadline, start.limit, grace, shares_terminal),
        tree,
        stop: None,
        killing: None,
    };
    // The front may have been frozen with the order in its hand, or we with it unread.
    watch.take_orders(&post);
    if watch.supervisor.is_too_late(clock::now()) {
        post.say(Word::Stopping(Blame::Expired));
        let never = Word::Ended(End::Killed(KILL), Blame::Expired);
        return front.send_waiting(&encode(&never));
    }
    // Fails only if somebody has killed it, of which we hear below.
    let _ = command.start(start.token.0);
    watch.keep(&post, &mut command)
}

impl Post<'_> {
    /// The order to start; none if the front has gone.
    fn wait_for_the_start(&self) -> io::Result<Option<Start>> {
        loop {
            match self.front.receive() {
                Incoming::Message(message) => {
                    if let Some(Order::Start(start)) = decode(&message) {
                        return Ok(Some(start));
                    }
                }
                Incoming::Closed => return Ok(None),
                Incoming::Nothing => wait_for([self.front.as_fd()], None).map(drop)?,
            }
        }
    }

    /// Waits for whatever comes first.
    fn wait(&self, is_front_there: bool) -> io::Result<()> {
        let (alarm, children) = (self.alarm.as_fd(), self.children.as_fd());
        match is_front_there {
            true => wait_for([self.front.as_fd(), alarm, children], None).map(drop),
            // What is closed is always readable.
            false => wait_for([alarm, children], None).map(drop),
        }
    }

    fn say(&self, word: Word) {
        // Lost if the front is frozen for very long, or dead.
        let _ = self.front.send(&encode(&word));
    }
}

/// A command that runs.
struct Watch {
    supervisor: Supervisor,
    tree: Tree,
    /// A request to stop that has not reached all of the tree.
    stop: Option<Broadcast>,
    /// All that is left has to die.
    killing: Option<Killing>,
}

impl Watch {
    /// Keeps watch until the tree is dead.
    fn keep(mut self, post: &Post, command: &mut PendingChild) -> io::Result<()> {
        loop {
            let is_front_there = self.take_orders(post);
            let now = clock::now();
            // After the orders: who was frozen finds the newest deadline before it acts on an old one.
            self.act(post, Input::Tick);
            let is_dead = self.tree.reap();
            let has_ended = self.tree.end().is_some();
            if is_dead || has_ended && twin::is_out(Mechanism::DeadTree) {
                return self.end(post, command);
            }
            if has_ended {
                // What the command leaves behind does not outlive it.
                self.kill_from(now);
            }
            let rounds = [self.stop_all_if_due(now), self.kill_all_if_due(post, now)];
            let wake = rounds.into_iter().chain([self.supervisor.wake_at()]);
            post.alarm.set(wake.flatten().min())?;
            post.wait(is_front_there)?;
            post.children.clear();
        }
    }

    /// Takes in all that the front has said; whether it is still there.
    fn take_orders(&mut self, post: &Post) -> bool {
        loop {
            match post.front.receive() {
                Incoming::Message(message) => {
                    if let Some(Order::Input(input)) = decode(&message) {
                        self.act(post, input);
                    }
                }
                Incoming::Nothing => return true,
                Incoming::Closed => {
                    self.act(post, Input::Abandoned);
                    return false;
                }
            }
        }
    }

    /// Lets the supervisor decide and sends what it says.
    fn act(&mut self, post: &Post, input: Input) {
        let before = self.supervisor.blame();
        let acts = self.supervisor.step(clock::now(), input);
        if before == Blame::Nobody && self.supervisor.blame() != Blame::Nobody {
            post.say(Word::Stopping(self.supervisor.blame()));
        }
        for act in acts {
            match act {
                Act::Forward(signal) => self.tree.signal_command(signal),
                Act::Stop(KILL) => self.kill_from(clock::now()),
                // A process that is stopped would not handle the signal.
                Act::Stop(signal) => {
                    self.stop = Some(Broadcast::new(&[signal, CONT], clock::now()));
                }
            }
            post.say(Word::Sent(act));
        }
    }

    fn kill_from(&mut self, now: BootInstant) {
        self.killing.get_or_insert_with(|| Killing::new(now));
    }

    /// Kills all that is alive, if all of it has to be dead; tells when to do it again.
    fn kill_all_if_due(&mut self, post: &Post, now: BootInstant) -> Option<BootInstant> {
        let (again, stuck) = self.killing.as_mut()?.round(&self.tree, now);
        if let Some(pid) = stuck {
            post.say(Word::Stuck(pid));
        }
        Some(again)
    }

    /// Asks all to stop that have not been asked, if they are to be; tells when to do it again.
    fn stop_all_if_due(&mut self, now: BootInstant) -> Option<BootInstant> {
        let stop = self.stop.as_mut().filter(|_| self.killing.is_none())?;
        if self.tree.send(stop) {
            self.stop = None;
        }
        Some(next_round(self.stop.as_ref()?.began, now))
    }

    fn end(&self, post: &Post, command: &mut PendingChild) -> io::Result<()> {
        let end = self.tree.end().unwrap_or(End::Killed(KILL));
        let word = command.failure().map_or_else(
            || Word::Ended(end, self.supervisor.blame()),
            Word::Unstartable,
        );
        // Nothing is left to guard: the front may take its time.
        post.front.send_waiting(&encode(&word))
    }
}
