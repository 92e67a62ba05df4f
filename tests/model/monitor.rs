//! The monitor: the real [`Supervisor`] in a process of its own.

use dlock::lease::instant::Deadline;
use dlock::supervise::{Act, Input, Supervisor};

use crate::time::{Tick, instant, timing};

/// The process that enforces the deadline.
///
/// [`Supervisor`] is made anew for each step from what it has heard: as long as it has stopped
/// nothing, it is one that began with the latest deadline.
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

    /// Whether it has begun to stop the command.
    pub(crate) const fn is_stopping(&self) -> bool {
        self.stopped.is_some()
    }

    pub(crate) fn supervisor(&self) -> Supervisor {
        let mut supervisor = Supervisor::new(self.deadline, None, timing().grace, false);
        if let Some((at, lost)) = self.stopped {
            let input = match lost {
                true => Input::Lost,
                false => Input::Tick,
            };
            supervisor.step(instant(at), input);
        }
        supervisor
    }

    /// What it sends because of `input` and because it is `now`.
    pub(crate) fn step(&mut self, now: Tick, input: Input) -> Vec<Act> {
        let acts = self.supervisor().step(instant(now), input);
        if self.stopped.is_none() {
            if let Input::Renewed(deadline) = input {
                self.deadline = self.deadline.max(deadline);
            }
            if !acts.is_empty() {
                self.stopped = Some((now, matches!(input, Input::Lost)));
            }
        }
        acts
    }
}
