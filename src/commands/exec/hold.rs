//! Holds the lease from the grant until the command's process tree is dead or is left behind. Runs on the main thread.

mod renewal;

use std::io;
use std::time::Duration;

use super::event_loop::{EventLoop, LONGEST_SLEEP};
use super::exits::unstartable;
use crate::cli::exec::ExecArgs;
use crate::event::Event;
use crate::event::connections::ConnectionWatcher;
use crate::exit::{ExitError, Status};
use crate::lease::instant::BootInstant;
use crate::metrics::MetricsResult;
use crate::outcome::{KilledRemains, RunFacts, RunOutcome};
use crate::process::monitor::{Killing, LATE, Monitor, MonitorMessage, ParentMessage, Start};
use crate::process::supervisor::{Effect, INT, KILL, StopReason, SupervisorInput, TERM};
use crate::protocol::acquire::AcquiredLease;
use crate::protocol::renew::{Liveness, Renewals};
use crate::protocol::sessions::SessionTracker;
use crate::report::log::EventKind;
use crate::report::messages;
use crate::store::session::SessionPolicy;
use crate::store::{Failure, Loss, Request};
use crate::sys::process::ExecError;
use crate::sys::signal_name::describe;
use crate::sys::tree::{ExitReason, Leftovers, Tree};
use crate::sys::{clock, signal};

/// Time from the grant to the first look at the connections of the command. A command without a connection to the
/// database often ends sooner, and then costs nothing.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// Minimum time by which a sleep of the event loop must be too long to count as a stop of this process.
const MIN_STOP: Duration = Duration::from_millis(500);

/// The parent's state of a command that runs under a lease.
struct RunState<'a> {
    args: &'a ExecArgs,
    monitor: &'a Monitor,
    renewals: Renewals,
    sessions: SessionTracker,
    /// The thread that watches the connections of the command. None before [`FIRST_LOOK`], and if the sessions of the
    /// command are ignored.
    watcher: Option<ConnectionWatcher>,
    /// Time at which the watcher starts. None if it is not to be started any more.
    watch_at: Option<BootInstant>,
    /// Time of the first failed renewal or closed connection since the most recent successful renewal. None if neither
    /// has occurred.
    failing_since: Option<BootInstant>,
    /// Time at which the server closed the connection, if this has not been reported. None if there is nothing to report.
    disconnected_at: Option<BootInstant>,
    /// Time for which this process did not run since the most recent successful renewal. None if it was not stopped.
    stopped_for: Option<Duration>,
    /// Failure of the most recent renewal. None if no renewal has failed since the most recent success.
    failure: Option<Failure>,
    /// Error number of the latest check of the heartbeat file. None if the file can be read.
    heartbeat_error: Option<i32>,
    /// How the lease was lost. None if the server has not reported a loss.
    loss: Option<Loss>,
    /// True if the monitor has sent SIGKILL, even if the signal had no effect.
    killed: bool,
    /// Number of processes that the command left and that were then killed.
    processes_killed: u32,
    /// The id of a process that did not die after SIGKILL. None if no such process was reported.
    stuck: Option<u32>,
    /// The processes that the parent must kill because the monitor is dead. None while the monitor is alive.
    orphans: Option<(Tree, Killing)>,
}

impl RunState<'_> {
    fn send(&self, input: SupervisorInput) {
        self.monitor.send(MonitorMessage::Input(input));
    }

    /// Looks at the connections of the command again, because it is about to be stopped.
    fn look_now(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.look_now();
        }
    }

    fn why_not_renewed(&self) -> String {
        match (&self.failure, &self.args.heartbeat_file) {
            (_, Some(file)) if self.renewals.is_silent() => {
                let why = match self.heartbeat_error {
                    Some(errno) => {
                        format!("cannot be read: {}", io::Error::from_raw_os_error(errno))
                    }
                    None => "does not change".to_owned(),
                };
                format!("no heartbeat, because {} {why}", file.display())
            }
            (Some(failure), _) => failure.to_string(),
            (None, _) if self.stopped_for.is_some() => {
                let stopped_for = messages::duration(self.stopped_for.unwrap_or_default());
                format!("dlock was stopped for {stopped_for}")
            }
            (None, _) => "no response from the server".to_owned(),
        }
    }

    /// Returns the time at which the parent assumes that the monitor has failed to enforce the deadline. None if the
    /// monitor has sent SIGKILL or has died.
    fn overdue_at(&self) -> Option<BootInstant> {
        let is_guarded = !self.killed && self.orphans.is_none();
        is_guarded.then(|| self.renewals.deadline().kill + LATE)
    }
}

/// A run that has ended.
pub(super) struct FinishedRun {
    pub(super) outcome: RunOutcome,
    /// One line that explains the outcome to users.
    pub(super) reason: String,
    pub(super) facts: RunFacts,
    pub(super) renewals: Renewals,
    /// The sessions of the command on the server.
    pub(super) sessions: SessionTracker,
    /// True if dlock killed a process of the command.
    pub(super) was_killed: bool,
}

impl FinishedRun {
    /// Returns the exit status, or an error that the caller prints as its last message.
    pub(super) fn result(self) -> Result<Status, ExitError> {
        let status = self.outcome.status();
        match self.outcome {
            RunOutcome::NeverRan(_) | RunOutcome::LeftBehind => {
                Err(ExitError::new(status, self.reason))
            }
            _ => Ok(status),
        }
    }
}

impl EventLoop<'_> {
    /// Starts the command and renews the lease until the run ends, which is normally when the whole process tree is
    /// dead. Stops the command if the lease is lost or cannot be renewed in time.
    pub(super) fn supervise(
        &mut self,
        lease: &AcquiredLease,
        args: &ExecArgs,
        monitor: &Monitor,
        waited: Duration,
    ) -> FinishedRun {
        let started = clock::now();
        let liveness = match args.heartbeat_file {
            Some(_) => Liveness::Pending,
            None => Liveness::NotRequired,
        };
        let mut renewals = Renewals::new(
            lease.grant,
            lease.queue_lock,
            self.timing,
            lease.sent,
            liveness,
        );
        renewals.limit_silence(lease.silence);
        monitor.send(MonitorMessage::Start(Start {
            deadline: renewals.deadline(),
            limit: args.max_runtime.map(|limit| started + limit),
            token: lease.grant.token,
            waited,
        }));
        self.observers.granted(lease.grant.token);
        self.deadline = Some(renewals.deadline());
        self.address_reader.granted(lease.grant, started);
        let mut run = RunState {
            args,
            monitor,
            renewals,
            sessions: SessionTracker::new(
                lease.grant.token,
                args.server_sessions,
                lease.earlier_sessions,
            ),
            watcher: None,
            watch_at: (args.server_sessions != SessionPolicy::Ignore)
                .then_some(started + FIRST_LOOK),
            failing_since: None,
            disconnected_at: None,
            stopped_for: None,
            failure: None,
            heartbeat_error: None,
            loss: None,
            killed: false,
            processes_killed: 0,
            stuck: None,
            orphans: None,
        };
        let (outcome, reason) = self.run(&mut run);
        self.deadline = None;
        FinishedRun {
            outcome,
            reason,
            facts: RunFacts {
                waited,
                took: clock::now().since(started),
                killed: KilledRemains {
                    sessions: 0,
                    processes: run.processes_killed,
                },
            },
            renewals: run.renewals,
            sessions: run.sessions,
            was_killed: run.killed,
        }
    }

    /// Runs the loop from the grant until the process tree is dead or is left behind. Returns the outcome and one line
    /// that explains the outcome.
    fn run(&mut self, run: &mut RunState<'_>) -> (RunOutcome, String) {
        let mut kill_again_at = None;
        loop {
            let now = clock::now();
            // A renewal may have been in flight when the command opened a connection.
            if run.sessions.is_look_due() {
                run.renewals.expedite_note(now);
            }
            if let Some(mut request) = run.renewals.due(now) {
                request.look = run.sessions.look().map(Box::new);
                self.send(Request::Renew(request));
            }
            let report_at = run
                .disconnected_at
                .map(|at| at + self.timing.request_timeout);
            if report_at.is_some_and(|at| now >= at) {
                self.report_disconnected(run);
            }
            if run.watch_at.is_some_and(|at| now >= at) {
                run.watch_at = None;
                run.watcher = self.watch_connections(run.monitor);
            }
            self.address_reader.start_if_due(now);
            let wake = [
                self.address_reader.next_at(),
                run.renewals.wake_at(),
                run.overdue_at(),
                kill_again_at,
                run.watch_at,
                run.disconnected_at
                    .map(|at| at + self.timing.request_timeout),
            ];
            let until = wake.into_iter().flatten().filter(|wake| *wake > now).min();
            let event = self.event(until.unwrap_or(now + LONGEST_SLEEP));
            let took = clock::now().since(now);
            if took >= LONGEST_SLEEP + MIN_STOP {
                run.stopped_for = Some(took);
            }
            match event {
                Some(Event::Signal(signal)) => match run.stuck {
                    Some(pid) if [INT, TERM].contains(&signal.number) => {
                        run.monitor.send(MonitorMessage::Leaving);
                        return self.abandoned(pid);
                    }
                    _ => {
                        run.look_now();
                        run.send(SupervisorInput::Signal(signal));
                    }
                },
                Some(Event::Response(response)) => {
                    let took = response.received.since(response.sent);
                    let outcome = run.renewals.handle_response(clock::now(), *response);
                    self.handle_renewal(outcome, took, run);
                }
                Some(Event::Connections(connections)) => {
                    run.sessions.update(connections);
                }
                Some(Event::AddressRead(record)) => {
                    if self.handle_address_read(record.as_deref(), &mut run.renewals) {
                        run.failing_since.get_or_insert_with(clock::now);
                    }
                }
                Some(Event::Heartbeat) => {
                    run.heartbeat_error = None;
                    run.renewals.record_heartbeat();
                }
                Some(Event::HeartbeatUnreadable(errno)) => run.heartbeat_error = Some(errno),
                Some(Event::Disconnected) => {
                    let now = clock::now();
                    run.failing_since.get_or_insert(now);
                    if let Some(limit) = run.renewals.disconnected(now) {
                        self.report_silence(limit);
                    }
                    run.disconnected_at.get_or_insert(now);
                }
                Some(Event::Monitor(message)) => {
                    if let Some(ended_run) = self.handle_message(message, run) {
                        return ended_run;
                    }
                }
                // Kill the monitor only if no event is pending. A parent that was frozen must first handle the events
                // that arrived while it was frozen.
                None if run.overdue_at().is_some_and(|at| clock::now() >= at) => {
                    run.monitor.kill();
                }
                Some(
                    Event::Connected(_) | Event::Hook(..) | Event::Metrics(_) | Event::QueueRead(_),
                )
                | None => {}
            }
            if let Some((tree, killing)) = &mut run.orphans {
                // The monitor is dead, so the parent kills and reaps the tree.
                if tree.reap() {
                    return self.ended(ExitReason::Killed(KILL), StopReason::MonitorDied, run);
                }
                let (next_round_at, stuck) = killing.round(tree, clock::now());
                kill_again_at = Some(next_round_at);
                if let Some(pid) = stuck {
                    self.stuck(pid, run);
                }
            }
        }
    }

    /// Returns the outcome of a run whose process tree is dead, and one line that explains the outcome.
    fn ended(
        &self,
        end: ExitReason,
        stop_reason: StopReason,
        run: &RunState<'_>,
    ) -> (RunOutcome, String) {
        let how = match end {
            ExitReason::Exited(code) => format!("the command exited with {code}"),
            ExitReason::Killed(signal) => format!("the command was killed by {}", describe(signal)),
        };
        self.report.debug(EventKind::Ended, &how);
        let reason = match stop_reason {
            StopReason::TimedOut => self.timeout_reason(run.args),
            _ => how,
        };
        (RunOutcome::of(end, stop_reason, run.loss), reason)
    }

    /// Handles a message from the monitor. Prepares to kill the process tree if the monitor is dead. Returns the
    /// outcome and its explanation if the run has ended. None if the run continues.
    fn handle_message(
        &mut self,
        message: ParentMessage,
        run: &mut RunState<'_>,
    ) -> Option<(RunOutcome, String)> {
        match message {
            ParentMessage::Sent(Effect::Forward(signal)) => {
                let text = format_args!("forwarded {} to the command", describe(signal));
                self.report.debug(EventKind::Signal, text);
            }
            ParentMessage::Sent(Effect::Stop(signal)) => {
                run.killed |= signal == KILL;
                let signal = describe(signal);
                let text = format_args!("sending {signal} to the command and all its descendants");
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
                run.look_now();
                self.report_disconnected(run);
                let why = format!("cannot keep {}: {}", self.action, run.why_not_renewed());
                self.lost(None, &why, "stopping");
            }
            ParentMessage::Stopping(StopReason::TimedOut) => {
                run.look_now();
                let why = format!("{}; stopping the command", self.timeout_reason(run.args));
                let meta = EventKind::Stopping.into();
                self.report
                    .exit_status(meta, RunOutcome::TimedOut.status(), &why);
            }
            // `Monitor::recv` returns the failure as the reason of `Gone`.
            ParentMessage::Stopping(_) | ParentMessage::Failed(_) => {}
            ParentMessage::Stuck(pid) => self.stuck(pid, run),
            ParentMessage::Unstartable(errno) => {
                let ending = unstartable(&run.args.command, &ExecError::from_errno(errno));
                return Some((RunOutcome::NeverRan(ending.status), ending.why));
            }
            ParentMessage::Ended(end, stop_reason, leftovers) => {
                self.killed_leftovers(&leftovers, stop_reason, run);
                return Some(self.ended(end, stop_reason, run));
            }
            ParentMessage::Gone(end) => {
                let why = format!("the monitor of {} {end}", self.action);
                self.lost(None, &why, "killing");
                run.orphans = Some((Tree::inherited(), Killing::new(clock::now())));
            }
        }
        None
    }

    /// Reports the processes that the command left and that were then killed, unless dlock was stopping the whole tree.
    fn killed_leftovers(
        &self,
        leftovers: &Leftovers,
        stop_reason: StopReason,
        run: &mut RunState<'_>,
    ) {
        let is_stopping = run.killed || stop_reason != StopReason::None;
        run.killed |= leftovers.number > 0;
        if leftovers.number == 0 || is_stopping {
            return;
        }
        run.processes_killed = leftovers.number;
        let text = messages::killed_leftovers(&self.action, leftovers);
        self.report.info(EventKind::ProcessesKilled, text);
    }

    /// Reports that `pid` does not die.
    fn stuck(&self, pid: u32, run: &mut RunState<'_>) {
        run.stuck = Some(pid);
        let action = &self.action;
        let state = match signal::is_permitted(pid) {
            true => "does not die",
            false => "runs as another user, so dlock cannot kill it",
        };
        let text = format_args!(
            "{} {state}; {action} is not released until the process is dead",
            process(pid)
        );
        self.report.error(EventKind::Stuck, text);
    }

    /// Returns the outcome of a run whose user did not wait until the process `pid` was dead, and one line that explains it.
    fn abandoned(&self, pid: u32) -> (RunOutcome, String) {
        let why = format!(
            "{} is still alive and was left behind; {} is free when its lease expires",
            process(pid),
            self.action
        );
        (RunOutcome::LeftBehind, why)
    }

    /// Reports that the lease is lost or will be lost. `other` is the label of the new holder or of the operator who
    /// revoked the lease. None if there is no such label.
    fn lost(&mut self, other: Option<&str>, why: &str, doing: &str) {
        let text = format!("{why}; {doing} the command");
        let meta = EventKind::Lost.by(other);
        self.report
            .exit_status(meta, RunOutcome::Lost.status(), &text);
        self.observers
            .ended(MetricsResult::Lost, why, other.unwrap_or_default());
    }

    /// Returns the reason for stopping a command that exceeded its maximum runtime.
    fn timeout_reason(&self, args: &ExecArgs) -> String {
        let limit = messages::duration(args.max_runtime.unwrap_or_default());
        format!("{} has run for {limit}", self.action)
    }
}

/// Names the process with the id `pid` in a message. The id is 0 if `/proc` does not show the process.
fn process(pid: u32) -> String {
    match pid {
        0 => "a process of the command, which /proc does not show,".to_owned(),
        _ => format!("process {pid} of the command"),
    }
}
