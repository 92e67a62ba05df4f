//! Histories that were made up.

use crate::check::CLAIMS;
use crate::history::{Event, Line, Micros};
use crate::kind::Kind;
use crate::schedule::{Plan, Route, Shape};
use crate::story::Story;

/// The one action of these histories.
const ACTION: &str = "processes-1";

/// A history in the making; all times are in milliseconds.
#[derive(Default)]
pub(crate) struct Plot {
    lines: Vec<Line>,
    faults: u64,
}

/// What most runs want: a lease of 2 s for ever so long, and the status 0.
pub(crate) fn plan() -> Plan {
    Plan {
        pause: 0,
        ttl: 2_000,
        hold: 1_000,
        shape: Shape::Plain,
        exit: 0,
        wait: None,
        route: Route::Tcp,
    }
}

impl Plot {
    pub(crate) fn event(mut self, millis: u64, event: Event) -> Self {
        let at: Micros = millis * 1_000;
        self.lines.push(Line { at, event });
        self
    }

    pub(crate) fn asked(self, millis: u64, run: u64) -> Self {
        self.asked_for(millis, run, plan())
    }

    pub(crate) fn asked_for(self, millis: u64, run: u64, plan: Plan) -> Self {
        let front = 1_000;
        let action = ACTION.to_owned();
        self.event(
            millis,
            Event::Asked {
                run,
                action,
                front,
                plan,
            },
        )
    }

    pub(crate) fn started(self, millis: u64, run: u64, token: u64) -> Self {
        self.began(millis, run, token, true)
    }

    pub(crate) fn began(self, millis: u64, run: u64, token: u64, alone: bool) -> Self {
        let action = ACTION.to_owned();
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
        let action = ACTION.to_owned();
        self.event(millis, Event::Counting { run, action, count })
    }

    pub(crate) fn counted(self, millis: u64, run: u64, count: u64) -> Self {
        let action = ACTION.to_owned();
        self.counting(millis, run, count)
            .event(millis, Event::Counted { run, action, count })
    }

    pub(crate) fn counter(self, millis: u64, count: u64) -> Self {
        let action = ACTION.to_owned();
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
        let action = ACTION.to_owned();
        self.event(millis, Event::Finished { run, action })
    }

    pub(crate) fn dead(self, millis: u64, run: u64) -> Self {
        let action = ACTION.to_owned();
        self.event(millis, Event::Dead { run, action })
    }

    pub(crate) fn ended(self, millis: u64, run: u64, status: i32) -> Self {
        self.over(millis, run, Some(status), None)
    }

    pub(crate) fn killed(self, millis: u64, run: u64) -> Self {
        self.killed_by(millis, run, 9)
    }

    pub(crate) fn killed_by(self, millis: u64, run: u64, signal: i32) -> Self {
        self.over(millis, run, None, Some(signal))
    }

    fn over(self, millis: u64, run: u64, status: Option<i32>, signal: Option<i32>) -> Self {
        let action = ACTION.to_owned();
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

    /// A whole life: asked, started, finished, dead, ended.
    pub(crate) fn lived(self, from: u64, to: u64, run: u64, token: u64) -> Self {
        self.asked(from, run)
            .started(from + 10, run, token)
            .finished(to - 10, run)
            .dead(to - 5, run)
            .ended(to, run, 0)
    }

    /// A fault of this run's processes, or of the whole site.
    pub(crate) fn fault(self, from: u64, to: u64, kind: Kind, run: Option<u64>) -> Self {
        self.fault_of("processes", from, to, kind, run)
    }

    /// A fault of another site.
    pub(crate) fn fault_at(self, site: &str, from: u64, to: u64, kind: Kind) -> Self {
        self.fault_of(site, from, to, kind, None)
    }

    fn fault_of(mut self, site: &str, from: u64, to: u64, kind: Kind, run: Option<u64>) -> Self {
        self.faults += 1;
        let fault = self.faults;
        self.event(
            from,
            Event::Fault {
                fault,
                kind,
                site: site.to_owned(),
                action: run.map(|_| ACTION.to_owned()),
                run,
                pid: None,
            },
        )
        .event(to, Event::Healed { fault, hit: true })
    }

    pub(crate) fn calm(self, millis: u64) -> Self {
        self.event(millis, Event::Calm)
    }

    pub(crate) fn overdue(self, millis: u64) -> Self {
        self.event(millis, Event::Overdue)
    }

    /// The story of it.
    pub(crate) fn story(mut self) -> Story {
        self.lines.sort_by_key(|line| line.at);
        Story::of(self.lines)
    }

    /// The claims that this history breaks.
    pub(crate) fn breaks(self) -> Vec<&'static str> {
        let story = self.story();
        let broken = CLAIMS
            .into_iter()
            .filter(|(_, checker)| !checker(&story).is_empty());
        broken.map(|(claim, _)| claim).collect()
    }
}
