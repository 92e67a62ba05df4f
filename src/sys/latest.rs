//! A place for one value that a thread takes. Newer values replace older ones that the thread has not taken yet.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place. Each change is one assignment, so the state stays valid after a panic.
#[derive(Debug)]
pub struct Latest<T> {
    newest: Mutex<Option<T>>,
    changed: Condvar,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self {
            newest: Mutex::new(None),
            changed: Condvar::new(),
        }
    }
}

impl<T> Latest<T> {
    /// Passes `value` to the thread. Never waits for the thread: the mutex is locked only for an assignment.
    pub fn put(&self, value: T) {
        *self.lock() = Some(value);
        self.changed.notify_one();
    }

    /// Waits for a new value and returns it.
    pub fn take(&self) -> T {
        let mut newest = self.lock();
        loop {
            if let Some(value) = newest.take() {
                return value;
            }
            newest = self
                .changed
                .wait(newest)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
