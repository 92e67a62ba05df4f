//! Whether there are faults now: all threads of a run pause here, and wake when the weather changes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Weather {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There are faults.
    #[default]
    Raging,
    /// No new ones; those that go on are about to end.
    Abating,
    /// None.
    Calm,
}

impl Weather {
    /// Waits for `duration`, or until it abates; whether it still rages.
    pub(crate) fn pause(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        let mut state = self.locked();
        while *state == State::Raging {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *state == State::Raging
    }

    pub(crate) fn rages(&self) -> bool {
        *self.locked() == State::Raging
    }

    /// From now on no fault begins.
    pub(crate) fn abate(&self) {
        self.turn(State::Abating);
    }

    /// From now on there is none.
    pub(crate) fn calm(&self) {
        self.turn(State::Calm);
    }

    /// Waits until it is calm.
    pub(crate) fn wait_for_calm(&self) {
        let wait = |state: &mut State| *state != State::Calm;
        drop(self.changed.wait_while(self.locked(), wait));
    }

    fn turn(&self, state: State) {
        *self.locked() = state;
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
