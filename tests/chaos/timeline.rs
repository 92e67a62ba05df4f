//! The timeline, which groups the events of a history by run, by fault and by stall of the machine.

use std::collections::BTreeMap;

use crate::fault_kind::{FaultKind, Victim};
use crate::history::{Event, Line, Micros};
use crate::schedule::Plan;

/// A run of dlock.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) action: String,
    pub(crate) launched: Micros,
    pub(crate) plan: Plan,
    pub(crate) start: Option<Start>,
    pub(crate) finished: Option<Micros>,
    /// Time at which the operator's request that revoked the lease had succeeded.
    pub(crate) revoked: Option<Micros>,
    pub(crate) dead: Option<Micros>,
    pub(crate) end: Option<End>,
}

impl Run {
    /// Returns true if the commands of both runs must not run at the same time, whatever the number of commands.
    pub(crate) const fn excludes(&self, other: &Self) -> bool {
        self.plan.is_exclusive() || other.plan.is_exclusive()
    }
}

/// The start of a run's command, with its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Micros,
    pub(crate) token: u64,
}

/// The end of dlock in a run.
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
    /// End time of the fault. `Micros::MAX` if the history does not contain the end.
    pub(crate) until: Micros,
    pub(crate) kind: FaultKind,
    pub(crate) site: String,
    pub(crate) action: Option<String>,
    pub(crate) run: Option<u64>,
    pub(crate) hit: bool,
}

/// The complete history, grouped by run, fault and stall.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) lines: Vec<Line>,
    pub(crate) runs: BTreeMap<u64, Run>,
    pub(crate) faults: Vec<Fault>,
    /// Site, start and end of each stall. During the stall, the site's server did not commit or, if the site is None,
    /// the kernel did not schedule the runner.
    stalls: Vec<(Option<String>, Micros, Micros)>,
    pub(crate) quiet: Option<Micros>,
    pub(crate) overdue: Option<Micros>,
}

impl Timeline {
    /// Returns the timeline of a history. The lines must be sorted by time.
    pub(crate) fn of(lines: Vec<Line>) -> Self {
        let mut timeline = Self::default();
        let mut fault_indices = BTreeMap::new();
        // A command may write its first event before the contender records the run, so the runs are created first.
        for Line { at, event } in &lines {
            if let Event::Launched {
                run, action, plan, ..
            } = event
            {
                let new_run = Run {
                    number: *run,
                    action: action.clone(),
                    launched: *at,
                    plan: plan.clone(),
                    start: None,
                    finished: None,
                    revoked: None,
                    dead: None,
                    end: None,
                };
                timeline.runs.insert(*run, new_run);
            }
        }
        for Line { at, event } in &lines {
            timeline.apply(*at, event, &mut fault_indices);
        }
        timeline.lines = lines;
        timeline
    }

    fn apply(&mut self, at: Micros, event: &Event, fault_indices: &mut BTreeMap<u64, usize>) {
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
            Event::Revoked { run, .. } => {
                self.runs
                    .entry(*run)
                    .and_modify(|run| run.revoked = Some(at));
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
                fault_indices.insert(*fault, self.faults.len());
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
                if let Some(index) = fault_indices.get(fault) {
                    self.faults[*index].until = at;
                    self.faults[*index].hit = *hit;
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

    /// Returns the runs whose command was started, by action. The runs are sorted by the start of the command.
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

    /// Returns true if the database of `action` may have lost a grant of the time `granted`, before `later`.
    pub(crate) fn may_have_lost(&self, action: &str, granted: Micros, later: Micros) -> bool {
        self.faults.iter().any(|fault| {
            fault.kind == FaultKind::LosePrimary
                && action.starts_with(&fault.site)
                && granted <= fault.until
                && fault.at <= later
        })
    }

    /// Returns true if the store refused the token of `run` because the database had lost the grant of a higher token.
    pub(crate) fn is_refused_after_loss(&self, run: u64) -> bool {
        self.lines.iter().any(|line| match &line.event {
            Event::Refused {
                run: refused,
                action,
                highest,
                ..
            } if *refused == run => self.runs.values().any(|earlier| {
                earlier.action == *action
                    && earlier.start.is_some_and(|start| {
                        start.token == *highest && self.may_have_lost(action, start.at, line.at)
                    })
            }),
            _ => false,
        })
    }

    /// Returns the faults whose victim was `run`.
    pub(crate) fn faults_of(&self, run: u64) -> impl Iterator<Item = &Fault> {
        self.faults
            .iter()
            .filter(move |fault| fault.run == Some(run))
    }

    /// Returns the length of the longest outage of the server or network of `action` that overlaps with `from..to`. 0
    /// if there was no outage.
    pub(crate) fn longest_outage(&self, action: &str, from: Micros, to: Micros) -> Micros {
        let is_relevant = |fault: &&Fault| {
            fault.kind.is_outage()
                && fault.at < to
                && fault.until > from
                && match &fault.action {
                    Some(affected) => affected == action,
                    None => action.starts_with(&fault.site),
                }
        };
        let length = |fault: &Fault| fault.until.saturating_sub(fault.at);
        let outages = self.faults.iter().filter(is_relevant).map(length);
        outages.max().unwrap_or_default()
    }

    /// Returns the sum of the stalls within `from..to` that affected `action`. dlock is not the cause of a stall.
    ///
    /// All servers share the machine, so a stall of one server also counts for actions on other sites. The exception is
    /// a stall during a fault of that server.
    pub(crate) fn stalled(&self, action: &str, from: Micros, to: Micros) -> Micros {
        let is_relevant = |(site, start, end): &&(Option<String>, Micros, Micros)| {
            // The times are compared first, because a long run has many stalls and few of them are in one window.
            *start < to
                && *end > from
                && site.as_ref().is_none_or(|site| {
                    action.starts_with(site) || !self.had_fault(site, *start, *end)
                })
        };
        let clipped = |(_, start, end): &(_, Micros, Micros)| ((*start).max(from), (*end).min(to));
        let mut stalls: Vec<(Micros, Micros)> = self
            .stalls
            .iter()
            .filter(is_relevant)
            .map(clipped)
            .collect();
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
    fn had_fault(&self, site: &str, from: Micros, to: Micros) -> bool {
        self.faults.iter().any(|fault| {
            matches!(fault.kind.victim(), Victim::Server | Victim::Node)
                && fault.site == site
                && fault.at < to
                && fault.until > from
        })
    }
}
