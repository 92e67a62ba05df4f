//! The current holder and waiters of each action, from which a nemesis picks its victim.
//!
//! The `live_runs` reads them from the history, so it lags by a few milliseconds. No checker uses it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::history::{Event, Line, Micros, micros, now};
use crate::schedule::{Plan, Route};

/// Interval at which the history is read.
const LOOK: Duration = Duration::from_millis(5);

/// Time after its start, in microseconds, from which a run counts as a waiter. By then it has joined the queue.
const STOOD: Micros = 200_000;

/// A run of dlock that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) action: String,
    pub(crate) parent: u32,
    pub(crate) plan: Plan,
    asked: Micros,
    /// Time at which the command started. None if it has not.
    started: Option<Micros>,
    is_done: bool,
}

#[derive(Default)]
struct Known {
    runs: BTreeMap<u64, Run>,
    /// Time at which a command was last started, by action.
    started: BTreeMap<String, Micros>,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct LiveRuns {
    known: Mutex<Known>,
    changed: Condvar,
}

impl LiveRuns {
    /// Follows the history in `folder` until the `live_runs` is closed.
    pub(crate) fn follow(&self, folder: &Path) {
        let file = File::open(folder.join("history")).expect("the history can be opened");
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        while !self.locked().is_closed {
            // The file may end with half a line: it is kept until the rest is written.
            match reader.read_line(&mut text) {
                Ok(1..) if text.ends_with('\n') => {
                    let line = serde_json::from_str(&text).expect("the history is JSON");
                    self.learn(line);
                    text.clear();
                }
                _ => thread::sleep(LOOK),
            }
        }
    }

    pub(crate) fn close(&self) {
        self.locked().is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().is_closed
    }

    fn learn(&self, Line { at, event }: Line) {
        let mut known = self.locked();
        match event {
            Event::Asked {
                run,
                action,
                parent,
                plan,
            } => {
                // The command may have written its line before the contender.
                let before = known.runs.get(&run);
                let (started, is_done) =
                    before.map_or((None, false), |run| (run.started, run.is_done));
                let news = Run {
                    number: run,
                    action,
                    parent,
                    plan,
                    asked: at,
                    started,
                    is_done,
                };
                known.runs.insert(run, news);
            }
            Event::Started { run, action, .. } => {
                known.started.insert(action, at);
                if let Some(run) = known.runs.get_mut(&run) {
                    run.started = Some(at);
                }
            }
            Event::Finished { run, .. } | Event::Dead { run, .. } => {
                if let Some(run) = known.runs.get_mut(&run) {
                    run.is_done = true;
                }
            }
            Event::Ended { run, .. } => {
                known.runs.remove(&run);
            }
            _ => return,
        }
        self.changed.notify_all();
    }

    /// Waits up to `patience` for a run that holds `action` and whose command will run for at least `left`. None if
    /// there is none.
    pub(crate) fn holder(&self, action: &str, left: Duration, patience: Duration) -> Option<Run> {
        self.holder_matching(action, left, patience, |_| true)
    }

    /// Like [`Self::holder`], but only for a run that connects through the action's proxy.
    pub(crate) fn holder_by_proxy(
        &self,
        action: &str,
        left: Duration,
        patience: Duration,
    ) -> Option<Run> {
        self.holder_matching(action, left, patience, |run| run.plan.route == Route::Proxy)
    }

    fn holder_matching(
        &self,
        action: &str,
        left: Duration,
        patience: Duration,
        suits: impl Fn(&Run) -> bool,
    ) -> Option<Run> {
        self.wait_for(patience, |known| {
            let until = now() + micros(left);
            let holds = |run: &&Run| {
                let end = run.started.map(|at| at + run.plan.hold * 1_000);
                run.action == action
                    && !run.is_done
                    && end.is_some_and(|end| end > until)
                    && suits(run)
            };
            let holders = known.runs.values().filter(holds);
            holders.max_by_key(|run| run.started).cloned()
        })
    }

    /// Waits up to `patience` for a run that waits for `action`. Returns the `choice`th, modulo their number.
    pub(crate) fn waiter(&self, action: &str, choice: usize, patience: Duration) -> Option<Run> {
        self.wait_for(patience, |known| {
            let since = now().saturating_sub(STOOD);
            let waits =
                |run: &&Run| run.action == action && run.started.is_none() && run.asked < since;
            let waiters: Vec<&Run> = known.runs.values().filter(waits).collect();
            let chosen = choice.checked_rem(waiters.len())?;
            Some(waiters[chosen].clone())
        })
    }

    /// Waits up to `patience` until a command of one of `actions` starts after `since`. Returns true if one did.
    pub(crate) fn goes_on(&self, actions: &[String], since: Micros, patience: Duration) -> bool {
        let later = |known: &Known| {
            let mut starts = actions
                .iter()
                .filter_map(|action| known.started.get(action));
            starts.any(|at| *at > since).then_some(())
        };
        self.wait_for(patience, later).is_some()
    }

    fn wait_for<T>(&self, patience: Duration, look: impl Fn(&Known) -> Option<T>) -> Option<T> {
        let end = now() + micros(patience);
        let mut known = self.locked();
        loop {
            if let found @ Some(_) = look(&known) {
                return found;
            }
            let left = end.saturating_sub(now());
            if left == 0 || known.is_closed {
                return None;
            }
            // The condition also depends on the time, not only on new events.
            let pause = Duration::from_micros(left).min(Duration::from_millis(50));
            known = self
                .changed
                .wait_timeout(known, pause)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
