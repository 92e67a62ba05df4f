//! What the server answered, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::report::words;
use crate::store::{Sighting, State, Survey, Waiter};

/// One answer.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Each action once, in the order of their bytes, and who waits.
    pub survey: Survey,
    /// When it came.
    pub at: BootInstant,
    /// The same on the wall clock of this machine, since 1970: to be compared with the server's.
    pub at_ours: Duration,
    /// Waiters of each action whose sessions are not known to be gone.
    waiting: BTreeMap<Action, usize>,
}

impl Heard {
    /// The answer `survey`, which came at these times.
    #[must_use]
    pub fn new(survey: Survey, at: BootInstant, at_ours: Duration) -> Self {
        let mut waiting = BTreeMap::new();
        let waiters = survey.waiters.iter();
        for waiter in waiters.filter(|waiter| waiter.alive != Some(false)) {
            *waiting.entry(waiter.action.clone()).or_default() += 1;
        }
        Self {
            survey,
            at,
            at_ours,
            waiting,
        }
    }

    /// The server's clock, since 1970.
    #[must_use]
    pub const fn server_time(&self) -> Duration {
        Duration::from_micros(self.survey.server_time.0)
    }

    /// How far the clocks are apart, if that is worth a word.
    #[must_use]
    pub fn clock_difference(&self) -> Option<String> {
        words::clock_difference(self.server_time(), self.at_ours)
    }

    /// The action as it was found.
    #[must_use]
    pub fn sighting(&self, action: &Action) -> Option<&Sighting> {
        let mut locks = self.survey.locks.iter();
        locks.find(|seen| seen.action == *action)
    }

    /// How many wait for it.
    #[must_use]
    pub fn waiting(&self, action: &Action) -> usize {
        self.waiting.get(action).copied().unwrap_or(0)
    }

    /// How many wait for any.
    #[must_use]
    pub fn all_waiting(&self) -> usize {
        self.waiting.values().sum()
    }

    /// The line of an action, with places.
    pub fn line_of(&self, action: &Action) -> impl Iterator<Item = (usize, &Waiter)> {
        let waiters = self.survey.waiters.iter();
        (1..).zip(waiters.filter(|waiter| waiter.action == *action))
    }

    /// How many actions are in `state`.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        let locks = self.survey.locks.iter();
        locks.filter(|seen| seen.state() == state).count()
    }
}
