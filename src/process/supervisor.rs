//! Supervision: decides which signals the command gets, and why. Pure, without a clock, processes or I/O. Runs in
//! the monitor.
//!
//! The rules:
//! - A signal that dlock receives is forwarded to the command unchanged, with the exceptions in the next two rules.
//! - If the command shares dlock's terminal process group, two kinds of signals are not forwarded: signals from the
//!   terminal (Ctrl-C), which have already reached the command, and signals from the command's own tree, which were
//!   normally sent to the whole group.
//! - The second SIGTERM or SIGINT kills the command's tree, because a user who sends two signals has waited long
//!   enough. An echo of the first signal (`ECHO_WINDOW`) does not count as the second signal. A Ctrl-C on a terminal
//!   that the command shares counts neither as the first nor as the second signal, because many commands handle Ctrl-C
//!   like any other key.
//! - If the lease is not renewed in time, the command gets the stop signal (`--stop-signal`, normally SIGTERM) at the
//!   deadline's `term` and SIGKILL at the deadline's `kill`.
//! - If the lease is lost, the command gets the stop signal immediately and SIGKILL after the grace period, but no later
//!   than the deadline's `kill`.
//! - If the command reaches `--max-runtime`, it gets the same signals as if the lease were lost.
//! - If the stop signal is SIGKILL, there is no grace period.
//! - If the parent dies, the command gets SIGKILL immediately, because the lease is no longer renewed.
//! - A forwarded signal is sent only to the command. A stop signal or SIGKILL that the supervisor itself decides to send
//!   is sent to the command's whole tree.
//! - A stop is never undone, even if a later renewal succeeds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::timing::MAX_TTL;
use crate::mutant::{self, Safeguard};
use crate::sys::signal::{Origin, Signal};

/// Time within which a second identical SIGTERM or SIGINT from the same process counts as an echo of the first. timeout(1)
/// sends its signal to the process that it started, and immediately afterwards to its own process group. A user who
/// waits for the effect of the first signal takes much longer to send the second.
const ECHO_WINDOW: Duration = Duration::from_millis(20);

/// The number of SIGINT. All signal numbers in this file are identical on x86-64 and arm64.
pub const INT: i32 = 2;
/// The number of SIGKILL.
pub const KILL: i32 = 9;
/// The number of SIGTERM.
pub const TERM: i32 = 15;
/// The number of SIGCONT.
pub const CONT: i32 = 18;

/// An input of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupervisorInput {
    /// A deadline or limit may have passed. Never sent as a message.
    #[serde(skip)]
    Tick,
    /// dlock received a signal.
    Signal(Signal),
    /// A renewal moved the deadline.
    Renewed(Deadline),
    /// The lease was lost.
    Lost,
    /// The parent is dead. Never sent as a message.
    #[serde(skip)]
    ParentDied,
}

/// A signal for the monitor to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Forward this signal to the command only.
    Forward(i32),
    /// Send this signal to the command's whole tree, to stop it.
    Stop(i32),
}

/// The progress of stopping the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Terminated { kill_at: BootInstant },
    Killed,
}

/// The reason why the lease or a limit stopped the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// Neither the lease nor a limit stopped the command.
    None,
    /// The lease could not be renewed in time.
    Expired,
    /// The lease was lost.
    Lost,
    /// The command ran for longer than `--max-runtime`.
    TimedOut,
    /// The monitor died, so the deadline of the lease could not be enforced.
    MonitorDied,
}

/// The state of one command under one lease.
#[derive(Debug)]
pub struct Supervisor {
    deadline: Deadline,
    /// Instant at which the command reaches `--max-runtime`. None if the run is not limited.
    limit: Option<BootInstant>,
    /// The first signal that stops the command.
    stop_signal: i32,
    grace: Duration,
    shares_terminal: bool,
    stage: Stage,
    stop_reason: StopReason,
    /// The most recent SIGTERM or SIGINT that dlock received and this supervisor handled, and the time of that signal.
    /// None before the first one.
    last_stop_request: Option<(Signal, BootInstant)>,
}

impl Supervisor {
    /// Creates the supervisor of a command under a lease with `deadline`. The command may run until `limit`. A `limit`
    /// of None does not limit the run. The supervisor stops the command with `stop_signal`, and with SIGKILL after
    /// `grace`. `shares_terminal` is true if the terminal's signals reach the command directly.
    #[must_use]
    pub const fn new(
        deadline: Deadline,
        limit: Option<BootInstant>,
        stop_signal: i32,
        grace: Duration,
        shares_terminal: bool,
    ) -> Self {
        Self {
            deadline,
            limit,
            stop_signal,
            grace,
            shares_terminal,
            stage: Stage::Running,
            stop_reason: StopReason::None,
            last_stop_request: None,
        }
    }

    /// Handles `input` at `now` and returns the signals to send.
    pub fn step(&mut self, now: BootInstant, input: SupervisorInput) -> Vec<Effect> {
        let mut effects = Vec::new();
        if mutant::is_disabled(Safeguard::Monitor) && !matches!(input, SupervisorInput::Signal(_)) {
            self.deadline.term = now + MAX_TTL;
            return effects;
        }
        match input {
            SupervisorInput::Tick => {}
            SupervisorInput::Signal(signal) => self.signalled(now, signal, &mut effects),
            SupervisorInput::Renewed(deadline) => self.deadline = self.deadline.max(deadline),
            SupervisorInput::Lost => self.terminate(now, StopReason::Lost, &mut effects),
            SupervisorInput::ParentDied => self.kill(&mut effects),
        }
        match self.stage {
            Stage::Running if now >= self.deadline.term => {
                self.terminate(now, StopReason::Expired, &mut effects);
            }
            Stage::Running if self.limit.is_some_and(|limit| now >= limit) => {
                self.terminate(now, StopReason::TimedOut, &mut effects);
            }
            Stage::Terminated { kill_at } if now >= kill_at => self.kill(&mut effects),
            _ => {}
        }
        effects
    }

    /// Returns true if the command must not be started, because it would have to be stopped immediately.
    #[must_use]
    pub fn is_too_late(&self, now: BootInstant) -> bool {
        now >= self.deadline.term
    }

    /// Returns the instant at which the next [`SupervisorInput::Tick`] is due. None after SIGKILL is sent.
    #[must_use]
    pub fn wake_at(&self) -> Option<BootInstant> {
        match self.stage {
            Stage::Running => Some(match self.limit {
                Some(limit) => limit.min(self.deadline.term),
                None => self.deadline.term,
            }),
            Stage::Terminated { kill_at } => Some(kill_at),
            Stage::Killed => None,
        }
    }

    /// Returns the latest deadline of the lease.
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the reason why the lease or a limit stopped the command. [`StopReason::None`] if neither did.
    #[must_use]
    pub const fn stop_reason(&self) -> StopReason {
        self.stop_reason
    }

    fn signalled(&mut self, now: BootInstant, signal: Signal, effects: &mut Vec<Effect>) {
        let has_reached_command = matches!(signal.origin, Origin::Below | Origin::Terminal);
        if self.shares_terminal && has_reached_command {
            return;
        }
        if [INT, TERM].contains(&signal.number) {
            match self.last_stop_request.replace((signal, now)) {
                Some((first, at)) if first == signal && now < at + ECHO_WINDOW => return,
                Some(_) => return self.kill(effects),
                None => {}
            }
        }
        effects.push(Effect::Forward(signal.number));
    }

    fn terminate(&mut self, now: BootInstant, stop_reason: StopReason, effects: &mut Vec<Effect>) {
        if self.stage == Stage::Running {
            self.stop_reason = stop_reason;
            if self.stop_signal == KILL {
                return self.kill(effects);
            }
            self.stage = Stage::Terminated {
                kill_at: (now + self.grace).min(self.deadline.kill),
            };
            effects.push(Effect::Stop(self.stop_signal));
        }
    }

    fn kill(&mut self, effects: &mut Vec<Effect>) {
        if self.stage != Stage::Killed {
            self.stage = Stage::Killed;
            effects.push(Effect::Stop(KILL));
        }
    }
}

#[cfg(test)]
mod tests;
