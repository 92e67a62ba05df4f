//! The command, or the ward of `dlock hold --pid`, under the monitor: its start, its signals, and its end. Runs on the main
//! thread.

use std::time::Duration;

use super::exits::unstartable;
use super::plan::RunPlan;
use super::work::{Work, WorkEvent};
use crate::event::connections::ConnectionWatcher;
use crate::event::queue::EventSender;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::outcome::RunOutcome;
use crate::process::monitor::{Killing, LATE, Monitor, MonitorMessage, ParentMessage, Start};
use crate::process::supervisor::{Effect, INT, KILL, StopReason, SupervisorInput, TERM};
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::session::SessionPolicy;
use crate::sys::clock;
use crate::sys::proc::descendants;
use crate::sys::process::ExecError;
use crate::sys::signal::{self, Signal};
use crate::sys::signal_name::describe;
use crate::sys::socket::Interrupter;
use crate::sys::tree::{CommandTree, ExitReason, Leftovers, Tree};
use crate::sys::ward::Ward;
use crate::sys::ward_tree::{WardLease, WardTree};

/// Time from the grant to the first look at the connections of the command. A command without a connection to the
/// database often ends sooner, and then costs nothing.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// The command of this process.
pub(in crate::commands) struct SupervisedCommand<'a> {
    plan: &'a RunPlan,
    report: &'a Report,
    monitor: Monitor,
    /// The process in place of a command. None if there is a command.
    ward: Option<Ward>,
    /// The lease of the ward, which its strays have in their environment. None before the start, and for a command.
    ward_lease: Option<WardLease>,
    /// True if a ward goes on without the leases.
    is_let_go: bool,
    /// The thread that watches the connections of the work. None before [`FIRST_LOOK`], and if its sessions are ignored.
    watcher: Option<ConnectionWatcher>,
    /// Time at which the watcher starts. None if it is not to be started any more.
    watch_at: Option<BootInstant>,
    /// True if a process of the command was sent SIGKILL, even if the signal had no effect.
    killed: bool,
    /// Number of processes that the command left and that were then killed.
    processes_killed: u32,
    /// The id of a process that did not die after SIGKILL. None if no such process was reported.
    stuck: Option<u32>,
    /// The processes that the parent must kill because the monitor is dead. None while the monitor is alive.
    orphans: Option<Orphans>,
}

/// The processes of a command whose monitor is dead.
struct Orphans {
    tree: Box<dyn Tree>,
    killing: Killing,
    kill_again_at: BootInstant,
}

impl<'a> SupervisedCommand<'a> {
    /// Creates the work of `plan` under `monitor`, whose subject is `ward`, or a command if `ward` is None.
    pub(in crate::commands) const fn new(
        plan: &'a RunPlan,
        report: &'a Report,
        monitor: Monitor,
        ward: Option<Ward>,
    ) -> Self {
        Self {
            plan,
            report,
            monitor,
            ward,
            ward_lease: None,
            is_let_go: false,
            watcher: None,
            watch_at: None,
            killed: false,
            processes_killed: 0,
            stuck: None,
            orphans: None,
        }
    }

    /// Returns the tree of the ward. None if there is none, or before the start.
    fn ward_tree(&self) -> Option<WardTree> {
        let (ward, lease) = (self.ward.clone()?, self.ward_lease.clone()?);
        Some(WardTree::new(ward, lease))
    }

    /// Ends the supervision of a ward that goes on without the leases. Has no effect if the ward is already being stopped.
    pub(in crate::commands) fn let_go(&mut self) {
        self.is_let_go = true;
        self.monitor.send(&MonitorMessage::LetGo);
    }

    /// Returns true if a process of the tree did not die after SIGKILL.
    pub(in crate::commands) const fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    fn send(&self, input: SupervisorInput) {
        self.monitor.send(&MonitorMessage::Input(input));
    }

    /// Looks at the connections of the command again, because it is about to be stopped.
    fn look_now(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.look_now();
        }
    }

    /// Returns the time at which this process assumes that the monitor has failed to enforce the deadline. None if the
    /// monitor has sent SIGKILL or has died.
    fn overdue_at(&self, deadline: Deadline) -> Option<BootInstant> {
        let is_guarded = !self.killed && self.orphans.is_none();
        is_guarded.then(|| deadline.kill + LATE)
    }

    /// Reports the processes that the command left and that were then killed, unless dlock was stopping the whole tree.
    fn killed_leftovers(&mut self, leftovers: &Leftovers, stop_reason: StopReason) {
        let is_stopping = self.killed || stop_reason != StopReason::None;
        self.killed |= leftovers.number > 0;
        if leftovers.number == 0 || is_stopping {
            return;
        }
        self.processes_killed = leftovers.number;
        let owner = format!("{} of {}", self.plan.work, self.plan.names);
        let text = messages::killed_leftovers(owner, leftovers);
        self.report.info(EventKind::ProcessesKilled, text);
    }

    /// Reports that `pid` does not die.
    fn stuck(&mut self, pid: u32) {
        self.stuck = Some(pid);
        let action = &self.plan.names;
        let state = match signal::is_permitted(pid) {
            true => "does not die",
            false => "runs as another user, so dlock cannot kill it",
        };
        let text = format_args!(
            "{} {state}; {action} is not released until the process is dead",
            self.process(pid)
        );
        self.report.error(EventKind::Stuck, text);
    }

    /// Names the process with the id `pid` in a message. The id is 0 if `/proc` does not show the process.
    fn process(&self, pid: u32) -> String {
        match (pid, &self.ward) {
            (0, _) => "a process of the command, which /proc does not show,".to_owned(),
            (_, None) => format!("process {pid} of the command"),
            (_, Some(ward)) if ward.pid() == pid => self.plan.work.clone(),
            (_, Some(_)) => format!("process {pid}, which {} has started,", self.plan.work),
        }
    }

    /// Returns the reason of a run whose user did not wait until the process `pid` was dead.
    fn still_alive(&self, pid: u32) -> String {
        let (process, action) = (self.process(pid), &self.plan.names);
        format!(
            "{process} is still alive and was left behind; {action} is free when its lease expires"
        )
    }

    /// Returns the reason for stopping a command that exceeded its maximum runtime.
    fn timeout_reason(&self) -> String {
        let limit = messages::duration(self.plan.max_runtime.unwrap_or_default());
        format!("{} has run for {limit}", self.plan.names)
    }
}

impl Work for SupervisedCommand<'_> {
    fn start(&mut self, deadline: Deadline, grants: &[Grant], waited: Duration) {
        let now = clock::now();
        if self.ward.is_some() {
            let action = self.plan.first().action.to_string();
            self.ward_lease = Some(WardLease::new(action, grants[0].token.0));
        }
        self.monitor.send(&MonitorMessage::Start(Start {
            deadline,
            limit: self.plan.max_runtime.map(|limit| now + limit),
            tokens: grants.iter().map(|grant| grant.token).collect(),
            slot: grants[0].slot,
            waited,
        }));
        let is_watched = self.plan.keeper.policy != SessionPolicy::Ignore;
        self.watch_at = is_watched.then_some(now + FIRST_LOOK);
    }

    fn renewed(&mut self, deadline: Deadline) {
        self.send(SupervisorInput::Renewed(deadline));
    }

    fn stop(&mut self) {
        self.look_now();
        self.send(SupervisorInput::Lost);
    }

    fn lost(&mut self, _why: &str, _by: Option<&str>, doing: &str) -> (String, WorkEvent) {
        (format!("{doing} {}", self.plan.work), WorkEvent::None)
    }

    /// Passes the signal to the monitor, unless it is one with which a user ends this process although a process of the
    /// command is still alive.
    fn signal(&mut self, signal: Signal) -> WorkEvent {
        if let Some(pid) = self.stuck
            && [INT, TERM].contains(&signal.number)
        {
            self.monitor.send(&MonitorMessage::Leaving);
            return WorkEvent::LeftBehind(self.still_alive(pid));
        }
        self.look_now();
        self.send(SupervisorInput::Signal(signal));
        WorkEvent::None
    }

    fn watch_if_due(&mut self, now: BootInstant, interrupter: Interrupter, to: &EventSender) {
        if self.watch_at.is_none_or(|at| now < at) {
            return;
        }
        self.watch_at = None;
        let watcher = if let Some(mut tree) = self.ward_tree() {
            ConnectionWatcher::start(move || tree.members(), interrupter, to.clone())
        } else {
            let root = self.monitor.pid();
            let find = move || descendants(root).collect();
            ConnectionWatcher::start(find, interrupter, to.clone())
        };
        match watcher {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                let text = format_args!("cannot watch the sessions of {}: {error}", self.plan.work);
                self.report.info(EventKind::SessionsLeft, text);
            }
        }
    }

    fn timers(&self, deadline: Deadline) -> Vec<BootInstant> {
        let kill_again_at = self.orphans.as_ref().map(|orphans| orphans.kill_again_at);
        let timers = [self.watch_at, self.overdue_at(deadline), kill_again_at];
        timers.into_iter().flatten().collect()
    }

    /// Kills the monitor if it has failed to enforce the deadline.
    fn enforce(&mut self, deadline: Deadline) -> WorkEvent {
        if (self.overdue_at(deadline)).is_some_and(|at| clock::now() >= at) {
            self.monitor.kill();
        }
        WorkEvent::None
    }

    /// Prepares to kill the process tree if the monitor is dead.
    fn handle_message(&mut self, message: ParentMessage) -> WorkEvent {
        match message {
            ParentMessage::Sent(Effect::Forward(signal)) => {
                let text = format_args!("forwarded {} to the command", describe(signal));
                self.report.debug(EventKind::Signal, text);
            }
            ParentMessage::Sent(Effect::Stop(signal)) => {
                self.killed |= signal == KILL;
                let signal = describe(signal);
                let text = format_args!(
                    "sending {signal} to {} and all its descendants",
                    self.plan.work
                );
                self.report.debug(EventKind::Signal, text);
            }
            ParentMessage::Refused(signal) => {
                let text = format_args!(
                    "cannot forward {} to the command, because it runs as another user",
                    describe(signal)
                );
                self.report.info(EventKind::Signal, text);
            }
            ParentMessage::Stopping(StopReason::Expired) => {
                self.look_now();
                return WorkEvent::Expired;
            }
            ParentMessage::Stopping(StopReason::TimedOut) => {
                self.look_now();
                let why = format!("{}; stopping {}", self.timeout_reason(), self.plan.work);
                let meta = EventKind::Stopping.into();
                let status = RunOutcome::TimedOut.status();
                self.report.exit_status(meta, status, &why);
            }
            // `Monitor::recv` returns the failure as the reason of `Gone`.
            ParentMessage::Stopping(_) | ParentMessage::Failed(_) => {}
            ParentMessage::Stuck(pid) => self.stuck(pid),
            ParentMessage::Unstartable(errno) => {
                let error = ExecError::from_errno(errno);
                let ending = unstartable(&self.plan.command, &error);
                return WorkEvent::NeverRan(RunOutcome::NeverRan(ending.status), ending.why);
            }
            ParentMessage::Ended(end, stop_reason, leftovers) => {
                self.killed_leftovers(&leftovers, stop_reason);
                return WorkEvent::Ended(end, stop_reason);
            }
            ParentMessage::Gone(end) => {
                let tree: Box<dyn Tree> = match self.ward_tree() {
                    Some(tree) => Box::new(tree),
                    None => Box::new(CommandTree::inherited()),
                };
                self.orphans = Some(Orphans {
                    tree,
                    killing: Killing::new(clock::now()),
                    kill_again_at: clock::now(),
                });
                return WorkEvent::MonitorDied(end);
            }
        }
        WorkEvent::None
    }

    fn kill_orphans(&mut self) -> bool {
        let Some(Orphans {
            tree,
            killing,
            kill_again_at,
        }) = &mut self.orphans
        else {
            return false;
        };
        if tree.reap() {
            return true;
        }
        let (next_round_at, stuck) = killing.round(&mut **tree, clock::now());
        *kill_again_at = next_round_at;
        if let Some(pid) = stuck {
            self.stuck(pid);
        }
        false
    }

    fn reason(&self, end: ExitReason, stop_reason: StopReason) -> String {
        let how = match end {
            _ if self.ward.is_some() => format!("{} has ended", self.plan.work),
            ExitReason::Exited(code) => format!("the command exited with {code}"),
            ExitReason::Killed(signal) => format!("the command was killed by {}", describe(signal)),
        };
        self.report.debug(EventKind::Ended, &how);
        match stop_reason {
            StopReason::TimedOut => self.timeout_reason(),
            _ => how,
        }
    }

    fn killed(&self) -> Option<u32> {
        self.killed.then_some(self.processes_killed)
    }

    /// The exit status of a ward is unknown, so its sessions continue only if the ward does.
    fn keeps_sessions(&self) -> bool {
        self.killed().is_none() && (self.ward.is_none() || self.is_let_go)
    }

    fn end(self: Box<Self>) {
        self.monitor.end();
    }
}
