//! The phase of a run: with faults, ending, or without faults. Threads pause here and wake when the phase changes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct FaultPhases {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Faults are caused.
    #[default]
    Active,
    /// No new fault begins; faults in progress end.
    Draining,
    /// There are no faults.
    Quiet,
}

impl FaultPhases {
    /// Waits for `duration`, or until the fault phase ends. Returns true if the fault phase goes on.
    pub(crate) fn pause(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        let mut state = self.locked();
        while *state == State::Active {
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
        *state == State::Active
    }

    pub(crate) fn is_active(&self) -> bool {
        *self.locked() == State::Active
    }

    /// Ends the fault phase: from now on no fault begins.
    pub(crate) fn abate(&self) {
        self.turn(State::Draining);
    }

    /// Starts the quiet phase: from now on there are no faults.
    pub(crate) fn quiet(&self) {
        self.turn(State::Quiet);
    }

    /// Waits for the quiet phase.
    pub(crate) fn wait_for_quiet(&self) {
        let wait = |state: &mut State| *state != State::Quiet;
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
