//! The phase of a chaos run, and the current holder and waiters of each action. A nemesis chooses its victim from them.
//!
//! The runs are read from the history, so they may be a few milliseconds old. No checker uses them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::history::{Event, Line, Micros, micros, now};
use crate::timeline::Run;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Minimum age of a waiter, in microseconds. A younger run may not have joined the queue.
const JOIN_TIME: Micros = 200_000;

const SEARCH: Duration = Duration::from_secs(12);

/// Maximum time to wait for a command to start after a fault. After this time, the next fault is injected anyway.
const RECOVERY: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Faults,
    /// No new fault begins. The current faults end.
    Draining,
    Quiet,
    Closed,
}

#[derive(Default)]
struct State {
    phase: Phase,
    runs: BTreeMap<u64, Run>,
    /// Start time of the latest command of each action.
    started: BTreeMap<String, Micros>,
}

#[derive(Default)]
pub(crate) struct LiveRuns {
    state: Mutex<State>,
    changed: Condvar,
}

impl LiveRuns {
    /// Reads the history in `folder`, including new lines, until the chaos run is closed.
    pub(crate) fn follow(&self, folder: &Path) {
        let file = File::open(folder.join("history")).expect("the history can be opened");
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        while !self.is_closed() {
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

    pub(crate) fn begin(&self, phase: Phase) {
        self.locked().phase = phase;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().phase == Phase::Closed
    }

    /// Waits for `duration`, or until the fault phase ends. Returns true if the fault phase has not ended.
    pub(crate) fn pause(&self, duration: Duration) -> bool {
        let wait = |state: &mut State| state.phase == Phase::Faults;
        drop((self.changed).wait_timeout_while(self.locked(), duration, wait));
        self.locked().phase == Phase::Faults
    }

    pub(crate) fn wait_for_quiet(&self) {
        let wait = |state: &mut State| state.phase != Phase::Quiet;
        drop(self.changed.wait_while(self.locked(), wait));
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
    /// true. Returns None if no such run appears in time.
    pub(crate) fn holder(
        &self,
        action: &str,
        left: Duration,
        matches: impl Fn(&Run) -> bool,
    ) -> Option<Run> {
        self.wait_for(SEARCH, |state| {
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
    /// None if no run waits in time.
    pub(crate) fn waiter(&self, action: &str, choice: usize) -> Option<Run> {
        self.wait_for(SEARCH, |state| {
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

    /// Waits until a command of one of `actions` starts after `since`, the time when a fault began.
    pub(crate) fn wait_for_start(&self, actions: &[String], since: Micros) {
        self.wait_for(RECOVERY, |state| {
            let mut starts = actions.iter().filter_map(|it| state.started.get(it));
            starts.any(|at| *at > since).then_some(())
        });
    }

    /// Waits until `find` returns a value. None after `timeout`, or when the fault phase ends, because no fault may
    /// begin.
    fn wait_for<T>(&self, timeout: Duration, find: impl Fn(&State) -> Option<T>) -> Option<T> {
        let end = now() + micros(timeout);
        let mut state = self.locked();
        loop {
            let left = end.saturating_sub(now());
            if left == 0 || state.phase != Phase::Faults {
                return None;
            }
            if let found @ Some(_) = find(&state) {
                return found;
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
