//! The history by subject: the context of each run, the time of each fault, and the stalls of the machine.

use std::collections::BTreeMap;

use crate::fault_kind::{FaultKind, Victim};
use crate::history::{Event, Line, Micros};
use crate::schedule::Plan;

/// A run of dlock.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) action: String,
    pub(crate) asked: Micros,
    pub(crate) plan: Plan,
    pub(crate) start: Option<Start>,
    pub(crate) finished: Option<Micros>,
    pub(crate) dead: Option<Micros>,
    pub(crate) end: Option<End>,
}

/// The start of a run's command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Micros,
    pub(crate) token: u64,
}

/// The end of dlock.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: Micros,
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stderr: String,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Micros,
    /// End of the fault; the maximum if the history does not contain it.
    pub(crate) until: Micros,
    pub(crate) kind: FaultKind,
    pub(crate) site: String,
    pub(crate) action: Option<String>,
    pub(crate) run: Option<u64>,
    pub(crate) hit: bool,
}

/// The whole history by subject.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) lines: Vec<Line>,
    pub(crate) runs: BTreeMap<u64, Run>,
    pub(crate) faults: Vec<Fault>,
    /// Site, start and end of each stall: the site's server did not commit, or without a site, the runner was not
    /// scheduled.
    stalls: Vec<(Option<String>, Micros, Micros)>,
    pub(crate) quiet: Option<Micros>,
    pub(crate) overdue: Option<Micros>,
}

impl Timeline {
    /// Returns the timeline of a history, which must be in order of time.
    pub(crate) fn of(lines: Vec<Line>) -> Self {
        let mut timeline = Self::default();
        let mut places = BTreeMap::new();
        // A command may write its first line before the contender has recorded the run.
        for Line { at, event } in &lines {
            if let Event::Asked {
                run, action, plan, ..
            } = event
            {
                let news = Run {
                    number: *run,
                    action: action.clone(),
                    asked: *at,
                    plan: plan.clone(),
                    start: None,
                    finished: None,
                    dead: None,
                    end: None,
                };
                timeline.runs.insert(*run, news);
            }
        }
        for Line { at, event } in &lines {
            timeline.take_in(*at, event, &mut places);
        }
        timeline.lines = lines;
        timeline
    }

    fn take_in(&mut self, at: Micros, event: &Event, places: &mut BTreeMap<u64, usize>) {
        match event {
            Event::Started { run, token, .. } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.start = Some(Start { at, token: *token });
                }
            }
            Event::Finished { run, .. } => {
                self.runs
                    .entry(*run)
                    .and_modify(|run| run.finished = Some(at));
            }
            Event::Dead { run, .. } => {
                self.runs.entry(*run).and_modify(|run| run.dead = Some(at));
            }
            Event::Ended {
                run,
                status,
                signal,
                stderr,
                ..
            } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.end = Some(End {
                        at,
                        status: *status,
                        signal: *signal,
                        stderr: stderr.clone(),
                    });
                }
            }
            Event::Fault {
                fault,
                kind,
                site,
                action,
                run,
                ..
            } => {
                places.insert(*fault, self.faults.len());
                self.faults.push(Fault {
                    at,
                    until: Micros::MAX,
                    kind: *kind,
                    site: site.clone(),
                    action: action.clone(),
                    run: *run,
                    hit: false,
                });
            }
            Event::Healed { fault, hit } => {
                if let Some(place) = places.get(fault) {
                    self.faults[*place].until = at;
                    self.faults[*place].hit = *hit;
                }
            }
            Event::Stalled { site, micros } => {
                let start = at.saturating_sub(*micros);
                self.stalls.push((site.clone(), start, at));
            }
            Event::Quiet => self.quiet = Some(at),
            Event::Overdue => self.overdue = Some(at),
            _ => {}
        }
    }

    /// Returns the runs whose command was started, by action, in order of start.
    pub(crate) fn grants(&self) -> BTreeMap<&str, Vec<(&Run, Start)>> {
        let mut grants: BTreeMap<&str, Vec<(&Run, Start)>> = BTreeMap::new();
        for run in self.runs.values() {
            if let Some(start) = run.start {
                grants.entry(&run.action).or_default().push((run, start));
            }
        }
        for grants in grants.values_mut() {
            grants.sort_by_key(|(_, start)| start.at);
        }
        grants
    }

    /// Returns the faults that were aimed at `run`.
    pub(crate) fn faults_of(&self, run: u64) -> impl Iterator<Item = &Fault> {
        self.faults
            .iter()
            .filter(move |fault| fault.run == Some(run))
    }

    /// Returns the length of the longest outage of the server for `action` that overlaps with `from..to`.
    pub(crate) fn longest_outage(&self, action: &str, from: Micros, to: Micros) -> Micros {
        let bears = |fault: &&Fault| {
            fault.kind.is_outage()
                && fault.at < to
                && fault.until > from
                && match &fault.action {
                    Some(struck) => struck == action,
                    None => action.starts_with(&fault.site),
                }
        };
        let length = |fault: &Fault| fault.until.saturating_sub(fault.at);
        let outages = self.faults.iter().filter(bears).map(length);
        outages.max().unwrap_or_default()
    }

    /// Returns the time within `from..to` for which the machine or the server of `action` stalled. dlock is not the
    /// cause.
    ///
    /// All servers share the machine, so a server that is slow without a fault of its own counts as a stall for all.
    pub(crate) fn stalled(&self, action: &str, from: Micros, to: Micros) -> Micros {
        let bears = |(site, start, end): &&(Option<String>, Micros, Micros)| {
            // The times are compared first: a long run has many stalls, but few in one window.
            *start < to
                && *end > from
                && site.as_ref().is_none_or(|site| {
                    action.starts_with(site) || !self.was_struck(site, *start, *end)
                })
        };
        let clipped = |(_, start, end): &(_, Micros, Micros)| ((*start).max(from), (*end).min(to));
        let mut stalls: Vec<(Micros, Micros)> =
            self.stalls.iter().filter(bears).map(clipped).collect();
        stalls.sort_unstable();
        let mut reached = from;
        let mut sum = 0;
        for (start, end) in stalls {
            sum += end.saturating_sub(start.max(reached));
            reached = reached.max(end);
        }
        sum
    }

    /// Returns true if the server of `site` had a fault within `from..to`.
    fn was_struck(&self, site: &str, from: Micros, to: Micros) -> bool {
        self.faults.iter().any(|fault| {
            fault.kind.victim() == Victim::Server
                && fault.site == site
                && fault.at < to
                && fault.until > from
        })
    }
}
