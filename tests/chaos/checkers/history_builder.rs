//! Builds artificial histories for the tests of the checkers.

use crate::check::PROPERTIES;
use crate::fault_kind::FaultKind;
use crate::history::{Event, Line, Micros};
use crate::schedule::{ContenderKind, Plan, Route, Shape};
use crate::timeline::Timeline;

/// The only action in the histories of a single server.
pub(crate) const ACTION: &str = "processes-1";

/// A builder for a history. All times are in milliseconds.
pub(crate) struct HistoryBuilder {
    site: &'static str,
    lines: Vec<Line>,
    faults: u64,
}

impl Default for HistoryBuilder {
    fn default() -> Self {
        Self::at("processes")
    }
}

/// Returns the plan of most runs: a ttl of 2 s, no wait limit, and the exit status 0.
pub(crate) fn plan() -> Plan {
    Plan {
        kind: ContenderKind::Exec,
        pause: 0,
        ttl: 2_000,
        hold: 1_000,
        shape: Shape::Plain,
        exit: 0,
        wait: None,
        route: Route::Tcp,
        option: None,
        has_session: false,
        limit: 1,
    }
}

/// Returns the plan of a program that uses `dlock hold`.
pub(crate) fn hold_plan(shape: Shape) -> Plan {
    let kind = ContenderKind::HoldJson;
    Plan {
        kind,
        shape,
        ..plan()
    }
}

impl HistoryBuilder {
    /// Returns a builder for a history of the first action of `site`.
    pub(crate) fn at(site: &'static str) -> Self {
        let (lines, faults) = (Vec::new(), 0);
        Self {
            site,
            lines,
            faults,
        }
    }

    fn action(&self) -> String {
        format!("{}-1", self.site)
    }

    pub(crate) fn event(mut self, millis: u64, event: Event) -> Self {
        let at: Micros = millis * 1_000;
        self.lines.push(Line { at, event });
        self
    }

    pub(crate) fn launched(self, millis: u64, run: u64) -> Self {
        self.launched_with(millis, run, plan())
    }

    pub(crate) fn launched_with(self, millis: u64, run: u64, plan: Plan) -> Self {
        let parent = 1_000;
        let action = self.action();
        self.event(
            millis,
            Event::Launched {
                run,
                action,
                parent,
                plan,
            },
        )
    }

    pub(crate) fn started(self, millis: u64, run: u64, token: u64) -> Self {
        self.started_alone(millis, run, token, true)
    }

    pub(crate) fn started_alone(self, millis: u64, run: u64, token: u64, alone: bool) -> Self {
        let action = self.action();
        self.event(
            millis,
            Event::Started {
                run,
                action,
                token,
                pid: 2_000,
                parent: 1_000,
                alone,
            },
        )
    }

    pub(crate) fn counting(self, millis: u64, run: u64, count: u64) -> Self {
        let action = self.action();
        self.event(millis, Event::Counting { run, action, count })
    }

    pub(crate) fn counted(self, millis: u64, run: u64, count: u64) -> Self {
        let action = self.action();
        self.counting(millis, run, count)
            .event(millis, Event::Counted { run, action, count })
    }

    pub(crate) fn counter(self, millis: u64, count: u64) -> Self {
        let action = self.action();
        let highest = 1;
        self.event(
            millis,
            Event::Counter {
                action,
                count,
                highest,
            },
        )
    }

    pub(crate) fn finished(self, millis: u64, run: u64) -> Self {
        let action = self.action();
        self.event(millis, Event::Finished { run, action })
    }

    pub(crate) fn dead(self, millis: u64, run: u64) -> Self {
        let action = self.action();
        self.event(millis, Event::Dead { run, action })
    }

    pub(crate) fn ended(self, millis: u64, run: u64, status: i32) -> Self {
        self.ended_with(millis, run, Some(status), None)
    }

    pub(crate) fn killed(self, millis: u64, run: u64) -> Self {
        self.killed_by(millis, run, 9)
    }

    pub(crate) fn killed_by(self, millis: u64, run: u64, signal: i32) -> Self {
        self.ended_with(millis, run, None, Some(signal))
    }

    pub(crate) fn ended_and_said(self, millis: u64, run: u64, status: i32, stderr: &str) -> Self {
        let action = self.action();
        self.event(
            millis,
            Event::Ended {
                run,
                action,
                status: Some(status),
                signal: None,
                stderr: stderr.to_owned(),
            },
        )
    }

    fn ended_with(self, millis: u64, run: u64, status: Option<i32>, signal: Option<i32>) -> Self {
        let action = self.action();
        let stderr = String::new();
        self.event(
            millis,
            Event::Ended {
                run,
                action,
                status,
                signal,
                stderr,
            },
        )
    }

    /// Adds all events of a run without a fault: launched, started, finished, dead, ended.
    pub(crate) fn complete_run(self, from: u64, to: u64, run: u64, token: u64) -> Self {
        self.launched(from, run)
            .started(from + 10, run, token)
            .finished(to - 10, run)
            .dead(to - 5, run)
            .ended(to, run, 0)
    }

    /// Adds a fault that affects the processes of `run`. If `run` is None, the fault affects the whole site.
    pub(crate) fn fault(self, from: u64, to: u64, kind: FaultKind, run: Option<u64>) -> Self {
        let site = self.site;
        self.fault_of(site, from, to, kind, run)
    }

    /// Adds a fault that affects the site `site`.
    pub(crate) fn fault_at(self, site: &str, from: u64, to: u64, kind: FaultKind) -> Self {
        self.fault_of(site, from, to, kind, None)
    }

    fn fault_of(
        mut self,
        site: &str,
        from: u64,
        to: u64,
        kind: FaultKind,
        run: Option<u64>,
    ) -> Self {
        self.faults += 1;
        let fault = self.faults;
        let action = run.map(|_| self.action());
        self.event(
            from,
            Event::Fault {
                fault,
                kind,
                site: site.to_owned(),
                action,
                run,
                pid: None,
            },
        )
        .event(to, Event::Healed { fault, hit: true })
    }

    pub(crate) fn quiet(self, millis: u64) -> Self {
        self.event(millis, Event::Quiet)
    }

    pub(crate) fn overdue(self, millis: u64) -> Self {
        self.event(millis, Event::Overdue)
    }

    /// Returns the timeline of the history.
    pub(crate) fn timeline(mut self) -> Timeline {
        self.lines.sort_by_key(|line| line.at);
        Timeline::of(self.lines)
    }

    /// Returns the properties that this history violates.
    pub(crate) fn violations(self) -> Vec<&'static str> {
        let timeline = self.timeline();
        let violated = PROPERTIES
            .into_iter()
            .filter(|(_, checker)| !checker(&timeline).is_empty());
        violated.map(|(property, _)| property).collect()
    }
}
