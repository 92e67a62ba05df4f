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
mod tests {
    use std::time::Duration;

    use super::{Effect, INT, KILL, StopReason, Supervisor, SupervisorInput, TERM};
    use crate::lease::instant::BootInstant;
    use crate::lease::timing::Timing;
    use crate::sys::signal::{Origin, Signal};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
    const GRACE: Duration = Duration::from_secs(5);
    const OTHER_PROCESS: Origin = Origin::Process(7);

    fn timing() -> Timing {
        Timing::new(Duration::from_secs(30), Some(GRACE)).expect("a valid ttl")
    }

    fn supervisor(shares_terminal: bool) -> Supervisor {
        Supervisor::new(timing().deadline(START), None, TERM, GRACE, shares_terminal)
    }

    fn supervisor_with(stop_signal: i32) -> Supervisor {
        let limit = Some(after(2));
        Supervisor::new(timing().deadline(START), limit, stop_signal, GRACE, false)
    }

    fn after(seconds: u64) -> BootInstant {
        START + Duration::from_secs(seconds)
    }

    fn signal(number: i32, origin: Origin) -> SupervisorInput {
        SupervisorInput::Signal(Signal { number, origin })
    }

    #[test]
    fn lease_that_is_not_renewed_stops_the_command_with_term_then_kill() {
        let mut supervisor = supervisor(false);
        assert_eq!(supervisor.step(after(23), SupervisorInput::Tick), []);
        assert_eq!(supervisor.wake_at(), Some(after(24)));
        assert_eq!(
            supervisor.step(after(24), SupervisorInput::Tick),
            [Effect::Stop(15)]
        );
        assert_eq!(supervisor.step(after(28), SupervisorInput::Tick), []);
        assert_eq!(
            supervisor.step(after(29), SupervisorInput::Tick),
            [Effect::Stop(9)]
        );
        assert_eq!(supervisor.stop_reason(), StopReason::Expired);
    }

    #[test]
    fn renewal_moves_the_deadline_until_the_stop_has_started() {
        let mut supervisor = supervisor(false);
        let renewed = SupervisorInput::Renewed(timing().deadline(after(20)));
        assert_eq!(supervisor.step(after(21), renewed), []);
        assert_eq!(supervisor.step(after(30), SupervisorInput::Tick), []);
        assert_eq!(
            supervisor.step(after(44), SupervisorInput::Tick),
            [Effect::Stop(15)]
        );
        let late = SupervisorInput::Renewed(timing().deadline(after(43)));
        assert_eq!(supervisor.step(after(45), late), []);
        assert_eq!(
            supervisor.step(after(49), SupervisorInput::Tick),
            [Effect::Stop(9)]
        );
    }

    #[test]
    fn supervisor_thawed_after_the_deadline_kills_immediately() {
        let mut supervisor = supervisor(false);
        assert_eq!(
            supervisor.step(after(60), SupervisorInput::Tick),
            [Effect::Stop(15)]
        );
        assert_eq!(
            supervisor.step(after(60), SupervisorInput::Tick),
            [Effect::Stop(9)]
        );
    }

    #[test]
    fn lost_lease_stops_the_command_immediately() {
        let mut supervisor = supervisor(false);
        assert_eq!(
            supervisor.step(after(3), SupervisorInput::Lost),
            [Effect::Stop(15)]
        );
        assert_eq!(
            supervisor.step(after(8), SupervisorInput::Tick),
            [Effect::Stop(9)]
        );
        assert_eq!(supervisor.stop_reason(), StopReason::Lost);
    }

    #[test]
    fn command_gets_the_chosen_stop_signal_for_every_reason_and_then_sigkill() {
        for (at, input, reason) in [
            (after(1), SupervisorInput::Lost, StopReason::Lost),
            (after(2), SupervisorInput::Tick, StopReason::TimedOut),
            (after(24), SupervisorInput::Tick, StopReason::Expired),
        ] {
            let mut supervisor = supervisor_with(INT);
            assert_eq!(supervisor.step(at, input), [Effect::Stop(INT)]);
            assert_eq!(supervisor.stop_reason(), reason);
            assert_eq!(supervisor.wake_at(), Some(at + GRACE));
            assert_eq!(
                supervisor.step(at + GRACE, SupervisorInput::Tick),
                [Effect::Stop(KILL)]
            );
        }
    }

    #[test]
    fn stop_signal_kill_leaves_no_grace_period() {
        let mut supervisor = supervisor_with(KILL);
        assert_eq!(
            supervisor.step(after(2), SupervisorInput::Tick),
            [Effect::Stop(KILL)]
        );
        assert_eq!(supervisor.stop_reason(), StopReason::TimedOut);
        assert_eq!(supervisor.wake_at(), None);
    }

    #[test]
    fn stop_signal_does_not_change_forwarded_signals() {
        let mut supervisor = supervisor_with(10);
        let term = signal(TERM, OTHER_PROCESS);
        assert_eq!(supervisor.step(after(1), term), [Effect::Forward(TERM)]);
        let own = signal(10, OTHER_PROCESS);
        assert_eq!(supervisor.step(after(1), own), [Effect::Forward(10)]);
        assert_eq!(supervisor.step(after(1), own), [Effect::Forward(10)]);
    }

    #[test]
    fn signal_is_forwarded_unchanged_and_the_second_stop_signal_kills() {
        let mut supervisor = supervisor(false);
        let term = signal(15, OTHER_PROCESS);
        assert_eq!(
            supervisor.step(after(1), signal(10, OTHER_PROCESS)),
            [Effect::Forward(10)]
        );
        assert_eq!(supervisor.step(after(1), term), [Effect::Forward(15)]);
        assert_eq!(supervisor.step(after(2), term), [Effect::Stop(9)]);
        assert_eq!(supervisor.stop_reason(), StopReason::None);
    }

    #[test]
    fn echo_of_a_stop_signal_is_ignored() {
        let mut supervisor = supervisor(false);
        let term = signal(15, Origin::Process(100));
        let soon = |milliseconds| START + Duration::from_millis(milliseconds);
        assert_eq!(supervisor.step(soon(0), term), [Effect::Forward(15)]);
        assert_eq!(supervisor.step(soon(1), term), []);
        let another = signal(15, Origin::Process(101));
        assert_eq!(supervisor.step(soon(2), another), [Effect::Stop(9)]);
    }

    #[test]
    fn signal_from_the_command_to_a_shared_group_is_not_forwarded() {
        let mut on_terminal = supervisor(true);
        let term = signal(15, Origin::Below);
        assert_eq!(on_terminal.step(after(1), term), []);
        assert_eq!(on_terminal.step(after(2), term), []);
        let mut in_own_group = supervisor(false);
        assert_eq!(in_own_group.step(after(1), term), [Effect::Forward(15)]);
    }

    #[test]
    fn ctrl_c_on_a_shared_terminal_is_neither_forwarded_nor_counted() {
        let mut supervisor = supervisor(true);
        assert_eq!(supervisor.step(after(1), signal(2, Origin::Terminal)), []);
        assert_eq!(supervisor.step(after(2), signal(2, Origin::Terminal)), []);
        assert_eq!(
            supervisor.step(after(1), signal(10, OTHER_PROCESS)),
            [Effect::Forward(10)]
        );
        assert_eq!(
            supervisor.step(after(3), signal(2, OTHER_PROCESS)),
            [Effect::Forward(2)]
        );
    }
}
