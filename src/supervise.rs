//! Supervising: what the command is to be sent, and why. Pure, no clock, no process, no I/O. Runs in
//! the monitor.
//!
//! The rules:
//! - Every signal that reaches us reaches the command, as itself. Where the command shares our
//!   terminal's group, a signal of the terminal (Ctrl-C) has reached it already, and what comes from
//!   the command's own tree was meant for that group.
//! - The second SIGTERM or SIGINT kills: a user who asks twice has waited long enough. A Ctrl-C on a
//!   terminal that the command shares does not count: many commands handle it like any other key.
//! - When the lease cannot be kept: SIGTERM at the deadline's `term`, SIGKILL at its `kill`.
//! - When the lease is lost: SIGTERM at once, SIGKILL a grace later, at the deadline at the latest.
//! - When the command has run for as long as it may: SIGTERM, SIGKILL a grace later.
//! - When dlock itself dies: SIGKILL at once. Nobody is left to keep the lease.
//! - A stop is never taken back, even if the lease should come back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exit::Status;
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::timing::MAX_TTL;
use crate::sys::signal::{Origin, Signal};
use crate::sys::tree::End;
use crate::twin::{self, Mechanism};

/// Within this time the same request from the same process is an echo of the first: timeout(1) sends
/// its signal to the process that it started and right after that to its own whole group. Much
/// shorter than anybody takes who has waited for the first to have an effect.
const ECHO: Duration = Duration::from_millis(20);

/// SIGINT; like those below the same number on x86-64 and arm64.
pub const INT: i32 = 2;
/// SIGKILL.
pub const KILL: i32 = 9;
/// SIGTERM.
pub const TERM: i32 = 15;
/// SIGCONT.
pub const CONT: i32 = 18;

/// Something that bears on the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// Time went by. Never sent.
    #[serde(skip)]
    Tick,
    /// A signal reached us.
    Signal(Signal),
    /// A renewal moved the deadline.
    Renewed(Deadline),
    /// The row is not ours any more.
    Lost,
    /// dlock is dead. Never sent.
    #[serde(skip)]
    Abandoned,
}

/// Something to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// To the command alone, as it came.
    Forward(i32),
    /// To the command's whole tree, by our own decision.
    Stop(i32),
}

/// Where the stopping of the command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Terminated { kill_at: BootInstant },
    Killed,
}

/// How far a lease is to blame for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// Not at all.
    Nobody,
    /// It could not be renewed in time.
    Expired,
    /// It became another's.
    Lost,
    /// Not the lease: the command ran for longer than it may.
    Overran,
    /// Not the lease, but nobody was left to enforce its deadline.
    Unguarded,
}

impl Blame {
    /// The status for a command that ended like `end`.
    #[must_use]
    pub fn status(self, end: End) -> Status {
        match (self, end) {
            (Self::Expired | Self::Lost | Self::Unguarded, _) => Status::LOST,
            (Self::Overran, _) => Status::TIMED_OUT,
            (Self::Nobody, End::Exited(code)) => Status::from_code(code),
            (Self::Nobody, End::Killed(signal)) => Status::from_signal(signal),
        }
    }
}

/// The state of one command under one lease.
#[derive(Debug)]
pub struct Supervisor {
    deadline: Deadline,
    /// When the command has run for as long as it may.
    limit: Option<BootInstant>,
    grace: Duration,
    shares_terminal: bool,
    stage: Stage,
    blame: Blame,
    /// The last request to stop.
    asked: Option<(Signal, BootInstant)>,
}

impl Supervisor {
    /// For a command under a lease with `deadline` that may run until `limit`; `shares_terminal` if
    /// the terminal's signals reach it without us.
    #[must_use]
    pub const fn new(
        deadline: Deadline,
        limit: Option<BootInstant>,
        grace: Duration,
        shares_terminal: bool,
    ) -> Self {
        Self {
            deadline,
            limit,
            grace,
            shares_terminal,
            stage: Stage::Running,
            blame: Blame::Nobody,
            asked: None,
        }
    }

    /// What to send because of `input` and because it is `now`.
    pub fn step(&mut self, now: BootInstant, input: Input) -> Vec<Act> {
        let mut acts = Vec::new();
        if twin::is_out(Mechanism::Monitor) && !matches!(input, Input::Signal(_)) {
            self.deadline.term = now + MAX_TTL;
            return acts;
        }
        match input {
            Input::Tick => {}
            Input::Signal(signal) => self.signalled(now, signal, &mut acts),
            Input::Renewed(deadline) => self.deadline = self.deadline.max(deadline),
            Input::Lost => self.terminate(now, Blame::Lost, &mut acts),
            Input::Abandoned => self.kill(&mut acts),
        }
        match self.stage {
            Stage::Running if now >= self.deadline.term => {
                self.terminate(now, Blame::Expired, &mut acts);
            }
            Stage::Running if self.limit.is_some_and(|limit| now >= limit) => {
                self.terminate(now, Blame::Overran, &mut acts);
            }
            Stage::Terminated { kill_at } if now >= kill_at => self.kill(&mut acts),
            _ => {}
        }
        acts
    }

    /// Whether a command must not even be started: it would have to be stopped at once.
    #[must_use]
    pub fn is_too_late(&self, now: BootInstant) -> bool {
        now >= self.deadline.term
    }

    /// When time alone will make a difference.
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

    /// Why the command was stopped, if the lease is to blame.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        self.blame
    }

    fn signalled(&mut self, now: BootInstant, signal: Signal, acts: &mut Vec<Act>) {
        let has_it = matches!(signal.origin, Origin::Below | Origin::Terminal);
        if self.shares_terminal && has_it {
            return;
        }
        if [INT, TERM].contains(&signal.number) {
            match self.asked.replace((signal, now)) {
                Some((first, at)) if first == signal && now < at + ECHO => return,
                Some(_) => return self.kill(acts),
                None => {}
            }
        }
        acts.push(Act::Forward(signal.number));
    }

    fn terminate(&mut self, now: BootInstant, blame: Blame, acts: &mut Vec<Act>) {
        if self.stage == Stage::Running {
            self.blame = blame;
            self.stage = Stage::Terminated {
                kill_at: (now + self.grace).min(self.deadline.kill),
            };
            acts.push(Act::Stop(TERM));
        }
    }

    fn kill(&mut self, acts: &mut Vec<Act>) {
        if self.stage != Stage::Killed {
            self.stage = Stage::Killed;
            acts.push(Act::Stop(KILL));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Act, Input, Supervisor};
    use crate::lease::instant::BootInstant;
    use crate::lease::timing::Timing;
    use crate::sys::signal::{Origin, Signal};
    use crate::sys::tree::End;

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
    const GRACE: Duration = Duration::from_secs(5);
    const SOMEBODY: Origin = Origin::Process(7);

    fn timing() -> Timing {
        Timing::new(Duration::from_secs(30), Some(GRACE)).expect("fits")
    }

    fn supervisor(shares_terminal: bool) -> Supervisor {
        Supervisor::new(timing().deadline(START), None, GRACE, shares_terminal)
    }

    fn after(seconds: u64) -> BootInstant {
        START + Duration::from_secs(seconds)
    }

    fn signal(number: i32, origin: Origin) -> Input {
        Input::Signal(Signal { number, origin })
    }

    #[test]
    fn a_lease_that_cannot_be_kept_ends_in_term_and_then_kill() {
        let mut supervisor = supervisor(false);
        assert_eq!(supervisor.step(after(23), Input::Tick), []);
        assert_eq!(supervisor.wake_at(), Some(after(24)));
        assert_eq!(supervisor.step(after(24), Input::Tick), [Act::Stop(15)]);
        assert_eq!(supervisor.step(after(28), Input::Tick), []);
        assert_eq!(supervisor.step(after(29), Input::Tick), [Act::Stop(9)]);
        assert_eq!(supervisor.blame().status(End::Killed(9)).code(), 76);
    }

    #[test]
    fn a_renewal_moves_the_deadline_until_the_stop_has_begun() {
        let mut supervisor = supervisor(false);
        let renewed = Input::Renewed(timing().deadline(after(20)));
        assert_eq!(supervisor.step(after(21), renewed), []);
        assert_eq!(supervisor.step(after(30), Input::Tick), []);
        assert_eq!(supervisor.step(after(44), Input::Tick), [Act::Stop(15)]);
        let late = Input::Renewed(timing().deadline(after(43)));
        assert_eq!(supervisor.step(after(45), late), []);
        assert_eq!(supervisor.step(after(49), Input::Tick), [Act::Stop(9)]);
    }

    #[test]
    fn a_thawed_supervisor_kills_at_once_when_everything_is_over() {
        let mut supervisor = supervisor(false);
        assert_eq!(supervisor.step(after(60), Input::Tick), [Act::Stop(15)]);
        assert_eq!(supervisor.step(after(60), Input::Tick), [Act::Stop(9)]);
    }

    #[test]
    fn a_lost_lease_stops_the_command_at_once() {
        let mut supervisor = supervisor(false);
        assert_eq!(supervisor.step(after(3), Input::Lost), [Act::Stop(15)]);
        assert_eq!(supervisor.step(after(8), Input::Tick), [Act::Stop(9)]);
        assert_eq!(supervisor.blame().status(End::Exited(0)).code(), 76);
    }

    #[test]
    fn a_signal_is_forwarded_as_itself_and_the_second_request_to_stop_kills() {
        let mut supervisor = supervisor(false);
        let term = signal(15, SOMEBODY);
        assert_eq!(
            supervisor.step(after(1), signal(10, SOMEBODY)),
            [Act::Forward(10)]
        );
        assert_eq!(supervisor.step(after(1), term), [Act::Forward(15)]);
        assert_eq!(supervisor.step(after(2), term), [Act::Stop(9)]);
        assert_eq!(supervisor.blame().status(End::Killed(9)).code(), 137);
    }

    #[test]
    fn a_request_to_stop_is_told_from_its_echo() {
        let mut supervisor = supervisor(false);
        let term = signal(15, Origin::Process(100));
        let soon = |milliseconds| START + Duration::from_millis(milliseconds);
        assert_eq!(supervisor.step(soon(0), term), [Act::Forward(15)]);
        assert_eq!(supervisor.step(soon(1), term), []);
        let another = signal(15, Origin::Process(101));
        assert_eq!(supervisor.step(soon(2), another), [Act::Stop(9)]);
    }

    #[test]
    fn what_a_command_sends_to_its_whole_group_is_no_request_to_dlock() {
        let mut on_terminal = supervisor(true);
        let term = signal(15, Origin::Below);
        assert_eq!(on_terminal.step(after(1), term), []);
        assert_eq!(on_terminal.step(after(2), term), []);
        let mut in_own_group = supervisor(false);
        assert_eq!(in_own_group.step(after(1), term), [Act::Forward(15)]);
    }

    #[test]
    fn ctrl_c_is_not_delivered_twice_to_a_command_on_our_terminal_nor_counted() {
        let mut supervisor = supervisor(true);
        assert_eq!(supervisor.step(after(1), signal(2, Origin::Terminal)), []);
        assert_eq!(supervisor.step(after(2), signal(2, Origin::Terminal)), []);
        assert_eq!(
            supervisor.step(after(1), signal(10, SOMEBODY)),
            [Act::Forward(10)]
        );
        assert_eq!(
            supervisor.step(after(3), signal(2, SOMEBODY)),
            [Act::Forward(2)]
        );
    }
}
