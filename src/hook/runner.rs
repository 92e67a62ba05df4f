//! The runner's loop: one hook after another, each with its whole tree dead before the next.
//!
//! Runs in a process of its own, with one thread. It waits for a hook no longer than the limit, and
//! for the front to say something.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use super::message::{LONGEST, of_word, variables};
use super::{LIMIT, STUCK, Word};
use crate::lease::instant::BootInstant;
use crate::sys::alarm::{Alarm, wait_for};
use crate::sys::link::{Incoming, Link};
use crate::sys::signal::{self, Inbox, Mask};
use crate::sys::startable::{Group, Startable, Streams};
use crate::sys::tree::{Life, Tree};
use crate::sys::{clock, descriptors, process};

/// Its name in lists of processes.
const NAME: &std::ffi::CStr = c"lease-hooks";

/// The signal that nobody survives.
const KILL: i32 = 9;

/// Pause between two rounds of killing: a parent's end brings its children to us.
const ROUND: std::time::Duration = std::time::Duration::from_millis(5);

/// Everything that the runner waits for.
struct Post<'a> {
    front: &'a Link,
    alarm: Alarm,
    children: Inbox,
    /// What came while a hook was running.
    orders: VecDeque<Vec<u8>>,
    is_front_there: bool,
}

/// Runs `command` for each message of `front`, and tells what came of it, until the front has gone.
///
/// # Errors
/// When the kernel lacks what it takes.
pub(super) fn serve(front: &Link, command: &str, mask: Mask) -> io::Result<()> {
    process::stand_apart(NAME)?;
    process::adopt_orphans()?;
    let mut post = Post {
        front,
        alarm: Alarm::new()?,
        children: signal::open_child_inbox()?,
        orders: VecDeque::new(),
        is_front_there: true,
    };
    descriptors::keep_only([front.as_fd(), post.alarm.as_fd(), post.children.as_fd()]);
    // stdout is the command's; what a hook says is about dlock.
    descriptors::join_stdout_to_stderr();
    let words = ["sh", "-c", command].map(Into::into);
    while let Some(order) = post.order()? {
        let hook = Startable::new(&words, &variables(&order), mask, Group::Own)
            .map(|hook| hook.on(Streams::AsTheyAre));
        let word = match hook {
            Ok(hook) => post.run(hook).unwrap_or_else(|error| unstartable(&error)),
            Err(error) => unstartable(&error),
        };
        // Fails if the front has gone.
        front.send_waiting(&of_word(word))?;
    }
    Ok(())
}

fn unstartable(error: &io::Error) -> Word {
    Word::Unstartable(error.raw_os_error().unwrap_or(0))
}

impl Post<'_> {
    /// The next order; none if the front has gone.
    fn order(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.take_in();
            if !self.is_front_there {
                return Ok(None);
            }
            if let Some(order) = self.orders.pop_front() {
                return Ok(Some(order));
            }
            wait_for([self.front.as_fd()])?;
        }
    }

    /// Takes in what the front has said, which would wake us again and again.
    fn take_in(&mut self) {
        while self.is_front_there {
            match self.front.receive_up_to(LONGEST) {
                Incoming::Message(order) => self.orders.push_back(order),
                Incoming::Nothing => return,
                Incoming::Closed => self.is_front_there = false,
            }
        }
    }

    /// Runs one hook until all of its tree is dead: by our hand what it leaves behind, and itself when
    /// its time is over or the front has gone.
    fn run(&mut self, hook: Startable) -> io::Result<Word> {
        let mut hook = hook.poise()?;
        let mut tree = Tree::of(&hook);
        // Fails only if somebody has killed it, of which we hear below.
        let _ = hook.start_as_it_is();
        let until = clock::now() + LIMIT;
        let mut killed_at: Option<BootInstant> = None;
        let mut is_late = false;
        loop {
            let now = clock::now();
            match tree.reap() {
                Life::Nothing => break,
                Life::Command if now < until && self.is_front_there => {}
                life => {
                    // How it ends after that is our doing.
                    is_late |= life == Life::Command;
                    killed_at.get_or_insert(now);
                }
            }
            let mut wake = until;
            if let Some(at) = killed_at {
                let _ = tree.signal_all(KILL);
                if now >= at + STUCK {
                    return Ok(Word::Stuck);
                }
                wake = now + ROUND;
            }
            self.wait(wake)?;
        }
        Ok(match (hook.failure(), tree.end()) {
            (Some(error), _) => unstartable(&error),
            (None, Some(end)) if !is_late => Word::Ended(end),
            (None, _) => Word::Late,
        })
    }

    /// Waits for a child's end, the front's, and for `until`.
    fn wait(&mut self, until: BootInstant) -> io::Result<()> {
        self.alarm.set(Some(until))?;
        let (alarm, children) = (self.alarm.as_fd(), self.children.as_fd());
        match self.is_front_there {
            true => wait_for([self.front.as_fd(), alarm, children]).map(drop)?,
            // What is closed is always readable.
            false => wait_for([alarm, children]).map(drop)?,
        }
        self.children.clear();
        self.take_in();
        Ok(())
    }
}
