//! The set of signals that a thread blocks.

use std::mem::MaybeUninit;

/// A set of signals.
#[derive(Debug)]
pub(super) struct SignalMask(pub(super) libc::sigset_t);

impl SignalMask {
    pub(super) fn of(numbers: impl IntoIterator<Item = i32>) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `set`; sigaddset refuses a number that is not a signal or that
        // the C library reserves.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for number in numbers {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            Self(set.assume_init())
        }
    }

    /// Applies this set to the signal mask of this thread, with `how` as in `sigprocmask(2)`. Returns the previous
    /// mask.
    pub(super) fn apply(&self, how: i32) -> Self {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set is initialised, and the call initialises `before` and keeps no pointer.
        unsafe {
            libc::pthread_sigmask(how, &raw const self.0, before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}
