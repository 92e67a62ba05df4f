//! The current phase of a chaos run. In the first phase, faults are injected. In the second phase, the last faults end.
//! In the third phase, there are no faults. Threads that wait for a phase wake up when the phase changes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct FaultPhases {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// The nemeses inject faults.
    #[default]
    Active,
    /// No new fault begins. The current faults end.
    Draining,
    /// There are no faults.
    Quiet,
}

impl FaultPhases {
    /// Waits for `duration`, or until the fault phase ends. Returns true if the fault phase has not ended.
    pub(crate) fn pause(&self, duration: Duration) -> bool {
        let wait = |state: &mut State| *state == State::Active;
        drop(
            self.changed
                .wait_timeout_while(self.locked(), duration, wait),
        );
        self.is_active()
    }

    pub(crate) fn is_active(&self) -> bool {
        *self.locked() == State::Active
    }

    /// Ends the fault phase. After this call, no fault begins.
    pub(crate) fn end_faults(&self) {
        self.set(State::Draining);
    }

    /// Starts the quiet phase, in which there are no faults.
    pub(crate) fn start_quiet(&self) {
        self.set(State::Quiet);
    }

    /// Waits for the quiet phase.
    pub(crate) fn wait_for_quiet(&self) {
        let wait = |state: &mut State| *state != State::Quiet;
        drop(self.changed.wait_while(self.locked(), wait));
    }

    fn set(&self, state: State) {
        *self.locked() = state;
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
