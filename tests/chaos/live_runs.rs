//! The current holder and waiters of each action. A nemesis chooses its victim from them.
//!
//! This data is read from the history, so it may be a few milliseconds old. No checker uses it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::history::{Event, Line, Micros, micros, now};
use crate::timeline::Run;

/// Interval at which new lines of the history are read.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Minimum age of a waiter, in microseconds. A younger run may not have joined the queue.
const JOIN_TIME: Micros = 200_000;

#[derive(Default)]
struct State {
    /// The runs of dlock that have not ended.
    runs: BTreeMap<u64, Run>,
    /// Start time of the latest command of each action.
    started: BTreeMap<String, Micros>,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct LiveRuns {
    state: Mutex<State>,
    changed: Condvar,
}

impl LiveRuns {
    /// Reads the history in `folder`, including new lines, until [`Self::close`].
    pub(crate) fn follow(&self, folder: &Path) {
        let file = File::open(folder.join("history")).expect("the history can be opened");
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        while !self.locked().is_closed {
            // If the file ends with an incomplete line, `text` keeps the line until the rest is written.
            match reader.read_line(&mut text) {
                Ok(1..) if text.ends_with('\n') => {
                    let line = serde_json::from_str(&text).expect("the history is JSON");
                    self.apply(&line);
                    text.clear();
                }
                _ => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    pub(crate) fn close(&self) {
        self.locked().is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().is_closed
    }

    fn apply(&self, line: &Line) {
        if let Event::Counting { .. } | Event::Counted { .. } = line.event {
            return;
        }
        let mut state = self.locked();
        if let (Event::Started { .. }, Some(action)) = (&line.event, &line.action) {
            state.started.insert(action.clone(), line.at);
        }
        if let Some(run) = Run::launched_by(line) {
            state.runs.insert(run.number, run);
        } else if let Some(run) = line.run.and_then(|run| state.runs.get_mut(&run)) {
            run.apply(line);
        }
        state.runs.retain(|_, run| run.end.is_none());
        self.changed.notify_all();
    }

    /// Waits for a run that holds `action`, whose command will run for at least `left`, and for which `matches` returns
    /// true. Returns None if no such run appears within `timeout`.
    pub(crate) fn holder(
        &self,
        action: &str,
        left: Duration,
        timeout: Duration,
        matches: impl Fn(&Run) -> bool,
    ) -> Option<Run> {
        self.wait_for(timeout, |state| {
            let until = now() + micros(left);
            let holds = |run: &&Run| {
                let end = run.start.map(|start| start.at + run.plan.hold * 1_000);
                run.action == action
                    && run.finished.or(run.dead).is_none()
                    && end.is_some_and(|end| end > until)
                    && matches(run)
            };
            let holders = state.runs.values().filter(holds);
            let newest = holders.max_by_key(|run| run.start.map(|start| start.at));
            newest.cloned()
        })
    }

    /// Waits for runs that wait for `action`. Returns the run with the index `choice` modulo the number of runs, or
    /// None if no run waits within `timeout`.
    pub(crate) fn waiter(&self, action: &str, choice: usize, timeout: Duration) -> Option<Run> {
        self.wait_for(timeout, |state| {
            let since = now().saturating_sub(JOIN_TIME);
            let waits =
                |run: &&Run| run.action == action && run.start.is_none() && run.launched < since;
            let waiters: Vec<&Run> = state.runs.values().filter(waits).collect();
            let chosen = choice.checked_rem(waiters.len())?;
            Some(waiters[chosen].clone())
        })
    }

    /// Returns the numbers of all runs whose command has not started.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        let state = self.locked();
        let waiting = state.runs.values().filter(|run| run.start.is_none());
        waiting.map(|run| run.number).collect()
    }

    /// Waits until a command of one of `actions` starts after `since`. Returns false if none starts within `timeout`.
    pub(crate) fn wait_for_start(
        &self,
        actions: &[String],
        since: Micros,
        timeout: Duration,
    ) -> bool {
        let later = |state: &State| {
            let actions = actions.iter();
            let mut starts = actions.filter_map(|action| state.started.get(action));
            starts.any(|at| *at > since).then_some(())
        };
        self.wait_for(timeout, later).is_some()
    }

    fn wait_for<T>(&self, timeout: Duration, find: impl Fn(&State) -> Option<T>) -> Option<T> {
        let end = now() + micros(timeout);
        let mut state = self.locked();
        loop {
            if let found @ Some(_) = find(&state) {
                return found;
            }
            let left = end.saturating_sub(now());
            if left == 0 || state.is_closed {
                return None;
            }
            // The condition also depends on the time, not only on new events.
            let pause = Duration::from_micros(left).min(Duration::from_millis(50));
            state = self
                .changed
                .wait_timeout(state, pause)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
