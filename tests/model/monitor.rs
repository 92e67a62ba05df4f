//! The monitor of the model, which uses the real [`Supervisor`].

use dlock::lease::instant::Deadline;
use dlock::process::supervisor::{Effect, Supervisor, SupervisorInput};

use crate::time::{Tick, instant, timing};

/// The process that enforces the deadline.
///
/// Each step creates a new [`Supervisor`] from the state here: as long as it has stopped nothing, it equals a
/// supervisor that began with the latest deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Monitor {
    pub(crate) deadline: Deadline,
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
        let mut supervisor = Supervisor::new(self.deadline, None, timing().grace, false);
        if let Some((at, lost)) = self.stopped {
            let input = match lost {
                true => SupervisorInput::Lost,
                false => SupervisorInput::Tick,
            };
            supervisor.step(instant(at), input);
        }
        supervisor
    }

    /// Returns the effects of `input` at `now`.
    pub(crate) fn step(&mut self, now: Tick, input: SupervisorInput) -> Vec<Effect> {
        let acts = self.supervisor().step(instant(now), input);
        if self.stopped.is_none() {
            if let SupervisorInput::Renewed(deadline) = input {
                self.deadline = self.deadline.max(deadline);
            }
            if !acts.is_empty() {
                self.stopped = Some((now, matches!(input, SupervisorInput::Lost)));
            }
        }
        acts
    }
}
