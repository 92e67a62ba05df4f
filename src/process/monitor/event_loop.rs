//! The event loop of the monitor. It handles messages from the parent, the deadline, and the end of children or of a ward.
//!
//! Runs in the monitor's process, which has one thread until the loop has ended. The loop must wait only for these
//! sources. Therefore the loop writes to no terminal, uses no database and takes no lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::backchannel::{LeftLeases, MonitorMessage, ParentMessage, Start, decode, encode};
use super::killing::{Killing, next_round};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};
use crate::process::supervisor::{CONT, Effect, KILL, StopReason, Supervisor, SupervisorInput};
use crate::sys::boot_timer::{BootTimer, wait_for};
use crate::sys::channel::{Channel, Received};
use crate::sys::pending_child::{PendingChild, PreparedCommand};
use crate::sys::signal::{JobControl, SignalFd};
use crate::sys::tree::{Broadcast, CommandTree, ExitReason, Leftovers, Tree};
use crate::sys::ward::Ward;
use crate::sys::ward_tree::{WardLease, WardTree};
use crate::sys::{clock, inherited, process};

/// Pause between two looks at the descendants of a ward, which would get another parent if the ward died. Each look takes a
/// fraction of a millisecond. A process that is started and left within the pause is found only if it is a stray.
const WARD_PAUSE: Duration = Duration::from_secs(1);

/// The processes that a monitor supervises.
pub enum Subject {
    /// A command that the monitor starts.
    Command(PreparedCommand),
    /// A process that dlock has not started, under the lease of this action, which is the first one.
    Ward(Ward, String),
}

/// The root of the tree that is supervised.
enum Root {
    Command(PendingChild),
    Ward(Ward, String),
}

impl Root {
    /// Returns the tree under the leases with `tokens`.
    fn tree(&self, tokens: &[Token]) -> Box<dyn Tree> {
        match self {
            Self::Command(command) => Box::new(CommandTree::of(command)),
            Self::Ward(ward, action) => {
                let token = tokens.first().map_or(0, |token| token.0);
                let lease = WardLease::new(action.clone(), token);
                Box::new(WardTree::new(ward.clone(), lease))
            }
        }
    }

    fn cancel(self) {
        if let Self::Command(command) = self {
            command.cancel();
        }
    }
}

/// How the monitor stops the command.
#[derive(Debug, Clone, Copy)]
pub struct StopRules {
    /// The first signal.
    pub stop_signal: i32,
    /// Time from the first signal to SIGKILL.
    pub grace: Duration,
    /// True if the terminal's signals reach the command directly.
    pub shares_terminal: bool,
}

/// The event sources of the monitor.
struct EventSources<'a> {
    parent: &'a Channel,
    timer: BootTimer,
    children: SignalFd,
}

/// Shows `about` in process lists. The command line contains no word of dlock's own one or of the command, so that
/// `killall dlock`, `pidof dlock` and `pkill -f` with the name of the command do not find the monitor. Starts a command when
/// the parent sends [`MonitorMessage::Start`], and supervises `subject` until its tree is dead. Returns the leases if the
/// parent has died while the command ran. Returns immediately if the parent dies before it sends that message.
///
/// # Errors
/// Fails if a system call fails. The monitor then ends, and the kernel kills the command.
pub(super) fn run_event_loop(
    about: &str,
    parent: &Channel,
    subject: Subject,
    rules: StopRules,
) -> io::Result<Option<LeftLeases>> {
    process::detach(process::MONITOR, about)?;
    process::become_subreaper()?;
    let sources = EventSources {
        parent,
        timer: BootTimer::new()?,
        // All signals that can be blocked are blocked or ignored, so other processes can stop or end the monitor only
        // with SIGSTOP or SIGKILL.
        children: SignalFd::open(JobControl::Off)?,
    };
    let mut root = match subject {
        Subject::Command(command) => Root::Command(command.spawn_pending()?),
        Subject::Ward(ward, action) => Root::Ward(ward, action),
    };
    inherited::close_descriptors();
    let Some(start) = sources.wait_for_start()? else {
        // Without this wait, a process 1 that does not reap its children would keep the dead process.
        root.cancel();
        return Ok(None);
    };
    let StopRules {
        stop_signal,
        grace,
        shares_terminal,
    } = rules;
    let mut supervised = SupervisedTree {
        supervisor: Supervisor::new(
            start.deadline,
            start.limit,
            stop_signal,
            grace,
            shares_terminal,
        ),
        tree: root.tree(&start.tokens),
        stop: None,
        killing: None,
        is_left: false,
        is_let_go: false,
    };
    // The parent may have been frozen before it sent the message, or the monitor may have been frozen before it read
    // the message.
    supervised.drain_messages(&sources);
    let is_command = matches!(root, Root::Command(_));
    if is_command && supervised.supervisor.is_too_late(clock::now()) {
        root.cancel();
        sources.send(&ParentMessage::Stopping(StopReason::Expired));
        let ended = ParentMessage::Ended(
            ExitReason::Killed(KILL),
            StopReason::Expired,
            Leftovers::default(),
        );
        parent.send_waiting(&encode(&ended))?;
        return Ok(None);
    }
    let started = clock::now();
    if let Root::Command(command) = &mut root {
        // The start fails only if the child has been killed, which `supervise` detects.
        let _ = command.start(start.tokens.iter().map(|token| token.0), start.slot);
    }
    let is_parent_alive = supervised.supervise(&sources, &mut root)?;
    let is_abandoned = !is_parent_alive && !supervised.is_left;
    Ok(is_abandoned.then(|| LeftLeases {
        tokens: start.tokens,
        deadline: supervised.supervisor.deadline(),
        waited: start.waited,
        took: clock::now().since(started),
    }))
}

impl EventSources<'_> {
    /// Waits for the message to start the command, and returns the parameters of the start. None if the parent has
    /// died.
    fn wait_for_start(&self) -> io::Result<Option<Start>> {
        loop {
            match self.parent.receive() {
                Received::Message(message) => {
                    if let Some(MonitorMessage::Start(start)) = decode(&message) {
                        return Ok(Some(start));
                    }
                }
                Received::Closed => return Ok(None),
                Received::Nothing => wait_for([self.parent.as_fd()], None).map(drop)?,
            }
        }
    }

    /// Waits until a message arrives, the timer expires, a child ends, or `root` is readable.
    fn wait(&self, is_parent_alive: bool, root: Option<BorrowedFd>) -> io::Result<()> {
        let (parent, timer) = (self.parent.as_fd(), self.timer.as_fd());
        let children = self.children.as_fd();
        // A closed channel would always be readable. The kernel refuses more descriptors than this process may open.
        match (is_parent_alive, root) {
            (true, None) => wait_for([parent, timer, children], None).map(drop),
            (true, Some(root)) => wait_for([parent, timer, children, root], None).map(drop),
            (false, None) => wait_for([timer, children], None).map(drop),
            (false, Some(root)) => wait_for([timer, children, root], None).map(drop),
        }
    }

    fn send(&self, message: &ParentMessage) {
        // The message is lost if the parent is dead, or has been frozen for so long that the socket buffer is full.
        let _ = self.parent.send(&encode(message));
    }
}

/// The tree of a started command, and the progress of stopping it.
struct SupervisedTree {
    supervisor: Supervisor,
    tree: Box<dyn Tree>,
    /// A stop signal that has not reached the whole tree yet.
    stop: Option<Broadcast>,
    /// The state of killing all remaining processes. None until these processes must be killed.
    killing: Option<Killing>,
    /// True if the parent has announced that it ends before the tree is dead.
    is_left: bool,
    /// True if the work is over although its process goes on.
    is_let_go: bool,
}

impl SupervisedTree {
    /// Supervises the tree until it is dead. Returns true if the parent is then alive.
    fn supervise(&mut self, sources: &EventSources, root: &mut Root) -> io::Result<bool> {
        loop {
            let is_parent_alive = self.drain_messages(sources);
            if self.is_let_go {
                return self.end(sources, root).map(|()| true);
            }
            let now = clock::now();
            // Handle messages before the tick. After a freeze, the monitor must read the latest deadline before it
            // enforces a deadline.
            self.apply(sources, SupervisorInput::Tick);
            let is_tree_dead = self.tree.reap();
            let has_ended = self.tree.end().is_some();
            if is_tree_dead || has_ended && mutant::is_disabled(Safeguard::DeadTree) {
                return match is_parent_alive {
                    true => self.end(sources, root).map(|()| true),
                    false => Ok(false),
                };
            }
            if has_ended {
                // The remaining processes of the tree must not outlive the command.
                self.kill_from(now);
            }
            let rounds = [
                self.stop_all_if_due(now),
                self.kill_all_if_due(sources, now),
                self.tree.watched().map(|_| now + WARD_PAUSE),
            ];
            let wake = rounds.into_iter().chain([self.supervisor.wake_at()]);
            sources.timer.set(wake.flatten().min())?;
            sources.wait(is_parent_alive, self.tree.watched())?;
            sources.children.clear();
        }
    }

    /// Handles all pending messages from the parent. Returns true if the parent is alive.
    fn drain_messages(&mut self, sources: &EventSources) -> bool {
        loop {
            match sources.parent.receive() {
                Received::Message(message) => match decode(&message) {
                    Some(MonitorMessage::Input(input)) => self.apply(sources, input),
                    Some(MonitorMessage::Leaving) => self.is_left = true,
                    Some(MonitorMessage::LetGo) => {
                        let is_stopping = self.supervisor.stop_reason() != StopReason::None;
                        self.is_let_go = !is_stopping && self.killing.is_none();
                    }
                    Some(MonitorMessage::Start(_)) | None => {}
                },
                Received::Nothing => return true,
                Received::Closed => {
                    self.apply(sources, SupervisorInput::ParentDied);
                    return false;
                }
            }
        }
    }

    /// Passes `input` to the supervisor and sends the signals that it returns.
    fn apply(&mut self, sources: &EventSources, input: SupervisorInput) {
        let before = self.supervisor.stop_reason();
        let effects = self.supervisor.step(clock::now(), input);
        if before == StopReason::None && self.supervisor.stop_reason() != StopReason::None {
            sources.send(&ParentMessage::Stopping(self.supervisor.stop_reason()));
        }
        for effect in effects {
            match effect {
                Effect::Forward(signal) if !self.tree.signal_root(signal) => {
                    sources.send(&ParentMessage::Refused(signal));
                    continue;
                }
                Effect::Forward(_) => {}
                Effect::Stop(KILL) => self.kill_from(clock::now()),
                // A stopped process handles the signal only after SIGCONT.
                Effect::Stop(signal) => {
                    self.stop = Some(Broadcast::new(&[signal, CONT], clock::now()));
                }
            }
            sources.send(&ParentMessage::Sent(effect));
        }
    }

    fn kill_from(&mut self, now: BootInstant) {
        self.killing.get_or_insert_with(|| Killing::new(now));
    }

    /// Kills all living processes of the tree if killing has started. Returns the instant at which the next round is
    /// due. None if killing has not started.
    fn kill_all_if_due(&mut self, sources: &EventSources, now: BootInstant) -> Option<BootInstant> {
        let (next, stuck) = self.killing.as_mut()?.round(&mut *self.tree, now);
        if let Some(pid) = stuck {
            sources.send(&ParentMessage::Stuck(pid));
        }
        Some(next)
    }

    /// Sends the stop signal to each process that has not received it yet, unless killing has started. Returns the
    /// instant at which the next round is due. None if no further round is needed.
    fn stop_all_if_due(&mut self, now: BootInstant) -> Option<BootInstant> {
        let stop = self.stop.as_mut().filter(|_| self.killing.is_none())?;
        if self.tree.send(stop) {
            self.stop = None;
        }
        Some(next_round(self.stop.as_ref()?.began, now))
    }

    fn end(&self, sources: &EventSources, root: &mut Root) -> io::Result<()> {
        let end = match self.is_let_go {
            true => ExitReason::Exited(0),
            false => self.tree.end().unwrap_or(ExitReason::Killed(KILL)),
        };
        let failure = match root {
            Root::Command(command) => command.failure(),
            Root::Ward(..) => None,
        };
        let message = failure.map_or_else(
            || {
                let leftovers = self.tree.leftovers().clone();
                ParentMessage::Ended(end, self.supervisor.stop_reason(), leftovers)
            },
            ParentMessage::Unstartable,
        );
        // The tree is dead or let go, so the monitor may wait for a slow parent.
        sources.parent.send_waiting(&encode(&message))
    }
}
