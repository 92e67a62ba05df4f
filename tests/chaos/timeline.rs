//! The timeline, which groups the events of a history by run, by fault and by stall of the machine.

use std::collections::BTreeMap;

use crate::fault_kind::{FaultKind, Victim};
use crate::history::{End, Event, Line, Micros};
use crate::schedule::{ContenderKind, Plan};

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) action: String,
    pub(crate) launched: Micros,
    /// Process id of dlock's parent process.
    pub(crate) parent: u32,
    pub(crate) plan: Plan,
    pub(crate) start: Option<Start>,
    pub(crate) finished: Option<Micros>,
    /// Time at which the operator's request that revoked the lease had succeeded.
    pub(crate) revoked: Option<Micros>,
    pub(crate) dead: Option<Micros>,
    pub(crate) end: Option<End>,
}

impl Run {
    /// Returns the run that `line` launches. None if it launches no run.
    pub(crate) fn launched_by(line: &Line) -> Option<Self> {
        let Event::Launched { parent, plan } = &line.event else {
            return None;
        };
        Some(Self {
            number: line.run?,
            action: line.action.clone()?,
            launched: line.at,
            parent: *parent,
            plan: plan.clone(),
            start: None,
            finished: None,
            revoked: None,
            dead: None,
            end: None,
        })
    }

    pub(crate) fn apply(&mut self, line: &Line) {
        let at = line.at;
        match &line.event {
            Event::Started { token, parent, .. } => {
                self.start = Some(Start { at, token: *token });
                // Before, it is the script.
                if self.plan.kind == ContenderKind::HoldPid {
                    self.parent = *parent;
                }
            }
            Event::Finished => self.finished = Some(at),
            Event::Revoked => self.revoked = Some(at),
            Event::Dead => self.dead = Some(at),
            Event::Ended(end) => self.end = Some(End { at, ..end.clone() }),
            _ => {}
        }
    }

    /// Returns true if the commands of both runs must not run at the same time, whatever the number of commands.
    pub(crate) const fn excludes(&self, other: &Self) -> bool {
        self.plan.is_exclusive() || other.plan.is_exclusive()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Micros,
    pub(crate) token: u64,
}

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

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) lines: Vec<Line>,
    pub(crate) runs: BTreeMap<u64, Run>,
    pub(crate) faults: BTreeMap<u64, Fault>,
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
        // A command may write its first event before the contender records the run, so the runs are created first.
        let runs = lines.iter().filter_map(Run::launched_by);
        timeline.runs = runs.map(|run| (run.number, run)).collect();
        for line in &lines {
            timeline.apply(line);
        }
        timeline.lines = lines;
        timeline
    }

    fn apply(&mut self, line: &Line) {
        let at = line.at;
        if let Some(run) = line.run.and_then(|run| self.runs.get_mut(&run)) {
            run.apply(line);
        }
        match &line.event {
            Event::Fault {
                fault, kind, site, ..
            } => {
                let new_fault = Fault {
                    at,
                    until: Micros::MAX,
                    kind: *kind,
                    site: site.clone(),
                    action: line.action.clone(),
                    run: line.run,
                    hit: false,
                };
                self.faults.insert(*fault, new_fault);
            }
            Event::Healed { fault, hit } => {
                if let Some(fault) = self.faults.get_mut(fault) {
                    (fault.until, fault.hit) = (at, *hit);
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
        self.faults.values().any(|fault| {
            fault.kind == FaultKind::LosePrimary
                && action.starts_with(&fault.site)
                && granted <= fault.until
                && fault.at <= later
        })
    }

    /// Returns true if the store refused the token of `run` because the database had lost the grant of a higher token.
    pub(crate) fn is_refused_after_loss(&self, run: u64) -> bool {
        let lost = |earlier: &Run, token: u64, at: Micros| {
            earlier.start.is_some_and(|start| {
                start.token == token && self.may_have_lost(&earlier.action, start.at, at)
            })
        };
        self.lines.iter().any(|line| match line.event {
            Event::Refused { highest, .. } if line.run == Some(run) => {
                let action = line.action.as_ref();
                let mut runs = self.runs.values();
                runs.any(|earlier| {
                    Some(&earlier.action) == action && lost(earlier, highest, line.at)
                })
            }
            _ => false,
        })
    }

    pub(crate) fn faults_of(&self, run: u64) -> impl Iterator<Item = &Fault> {
        let faults = self.faults.values();
        faults.filter(move |fault| fault.run == Some(run))
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
        let outages = self.faults.values().filter(is_relevant).map(length);
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
        let stalls = self.stalls.iter().filter(is_relevant).map(clipped);
        let mut stalls: Vec<(Micros, Micros)> = stalls.collect();
        stalls.sort_unstable();
        let mut reached = from;
        let mut sum = 0;
        for (start, end) in stalls {
            sum += end.saturating_sub(start.max(reached));
            reached = reached.max(end);
        }
        sum
    }

    fn had_fault(&self, site: &str, from: Micros, to: Micros) -> bool {
        self.faults.values().any(|fault| {
            matches!(fault.kind.victim(), Victim::Server | Victim::Node)
                && fault.site == site
                && fault.at < to
                && fault.until > from
        })
    }
}
