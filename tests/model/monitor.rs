//! The monitor of a client in the model. It runs the real [`Supervisor`].

use dlock::lease::instant::Deadline;
use dlock::process::supervisor::{Effect, Supervisor, SupervisorInput, TERM};

use crate::time::{Tick, instant, timing};

/// The process that enforces the deadline.
///
/// Each step creates a new [`Supervisor`] from this state. Until a supervisor stops the command, it is equivalent to a
/// supervisor that started with the latest deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Monitor {
    pub(crate) deadline: Deadline,
    /// The tick at which the monitor began to stop the command. The flag is true if the reason was a lost lease. None
    /// if the monitor has not begun to stop the command.
    stopped: Option<(Tick, bool)>,
}

impl Monitor {
    pub(crate) const fn new(deadline: Deadline) -> Self {
        Self {
            deadline,
            stopped: None,
        }
    }

    /// Returns true if the monitor has begun to stop the command.
    pub(crate) const fn is_stopping(&self) -> bool {
        self.stopped.is_some()
    }

    pub(crate) fn supervisor(&self) -> Supervisor {
        let mut supervisor = Supervisor::new(self.deadline, None, TERM, timing().grace, false);
        if let Some((at, lost)) = self.stopped {
            let input = match lost {
                true => SupervisorInput::Lost,
                false => SupervisorInput::Tick,
            };
            supervisor.step(instant(at), input);
        }
        supervisor
    }

    /// Passes `input` to the supervisor at `now`, and returns the effects.
    pub(crate) fn step(&mut self, now: Tick, input: SupervisorInput) -> Vec<Effect> {
        let effects = self.supervisor().step(instant(now), input);
        if self.stopped.is_none() {
            if let SupervisorInput::Renewed(deadline) = input {
                self.deadline = self.deadline.max(deadline);
            }
            if !effects.is_empty() {
                self.stopped = Some((now, matches!(input, SupervisorInput::Lost)));
            }
        }
        effects
    }
}
