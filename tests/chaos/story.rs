//! The history told by subject: what became of each run, when each fault was, what the machine itself did.

use std::collections::BTreeMap;

use crate::history::{Event, Line, Micros};
use crate::kind::{Kind, Victim};
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

/// How its command began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Micros,
    pub(crate) token: u64,
}

/// How dlock ended.
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
    /// When it was over; as late as can be if nobody said.
    pub(crate) until: Micros,
    pub(crate) kind: Kind,
    pub(crate) site: String,
    pub(crate) action: Option<String>,
    pub(crate) run: Option<u64>,
    pub(crate) hit: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) lines: Vec<Line>,
    pub(crate) runs: BTreeMap<u64, Run>,
    pub(crate) faults: Vec<Fault>,
    /// From when to when the machine did not let us run, or the server of the site did not commit.
    stalls: Vec<(Option<String>, Micros, Micros)>,
    pub(crate) calm: Option<Micros>,
    pub(crate) overdue: Option<Micros>,
}

impl Story {
    /// The story of a history that is in order.
    pub(crate) fn of(lines: Vec<Line>) -> Self {
        let mut story = Self::default();
        let mut places = BTreeMap::new();
        // A command may write its first line before the contender has noted that there is such a run.
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
                story.runs.insert(*run, news);
            }
        }
        for Line { at, event } in &lines {
            story.take_in(*at, event, &mut places);
        }
        story.lines = lines;
        story
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
            Event::Calm => self.calm = Some(at),
            Event::Overdue => self.overdue = Some(at),
            _ => {}
        }
    }

    /// The runs whose command began, in order of that, by action.
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

    /// The faults of the processes of `run`.
    pub(crate) fn faults_of(&self, run: u64) -> impl Iterator<Item = &Fault> {
        self.faults
            .iter()
            .filter(move |fault| fault.run == Some(run))
    }

    /// The longest time within `from..to` for which the server was out of the reach of `action`.
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

    /// How long within `from..to` the machine stood still, or the server of `action` did: nobody can be blamed for that.
    ///
    /// All servers share the machine, so that one which is slow without a fault of its own speaks for all.
    pub(crate) fn stalled(&self, action: &str, from: Micros, to: Micros) -> Micros {
        let bears = |(site, start, end): &&(Option<String>, Micros, Micros)| {
            // First by time: there are many stalls in a long run, and few within any one window.
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

    /// Whether the server of `site` had a fault within `from..to`.
    fn was_struck(&self, site: &str, from: Micros, to: Micros) -> bool {
        self.faults.iter().any(|fault| {
            fault.kind.victim() == Victim::Server
                && fault.site == site
                && fault.at < to
                && fault.until > from
        })
    }
}
