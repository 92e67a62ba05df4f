//! The report, which consists of one line for each round, and a summary for each tool.
//!
//! Each line contains the load of the machine. No number is adjusted for the load.

use std::fmt::Write as _;
use std::time::Duration;

use testkit::bench::host;
use testkit::bench::sample::{percentile, seconds};
use testkit::servers::Flavour;

use crate::checks::{KillKind, Round, WINDOW};
use crate::options::Options;

pub(crate) struct Tally {
    flavour: Flavour,
    name: &'static str,
    is_timed: bool,
    rounds: Vec<Round>,
}

impl Tally {
    pub(crate) fn new(flavour: Flavour, name: &'static str, options: &Options) -> Self {
        Self {
            flavour,
            name,
            is_timed: options.is_timed,
            rounds: Vec::new(),
        }
    }

    fn failures(&self, round: &Round) -> Vec<String> {
        let mut failures = round.failures();
        if self.is_timed && round.is_late() {
            failures.push("late".to_owned());
        }
        failures
    }

    pub(crate) fn add(&mut self, round: Round) -> String {
        let Self { flavour, name, .. } = self;
        let (Round { kind, moment, .. }, number) = (&round, self.rounds.len() + 1);
        let mut text = format!("{flavour} {name} round {number}: {kind} killed {moment}");
        // Writing to a String cannot fail.
        if let Some(next) = &round.next {
            let (replica, after) = (next.replica, seconds(next.after));
            let _ = write!(
                text,
                "; replica {replica} started {after} s later, with {} statements alive",
                next.active.len()
            );
            if let Some(last) = next.last_active.map(seconds) {
                let _ = write!(text, "; last statement seen {last} s after the kill");
            }
            if let Some(stop) = next.stop.map(seconds) {
                let _ = write!(text, "; stopped in {stop} s");
            }
        }
        let [load, ..] = host::load();
        let _ = write!(text, "; load {load:.2}");
        if let Some(window) = round.window() {
            let why = "NOT CHECKED, killed between a commit and its record";
            let _ = write!(text, "\n  {why}: {window}");
        }
        let failures = self.failures(&round);
        for failure in &failures {
            let _ = write!(text, "\n  FAILURE: {failure}");
        }
        let replicas = round.replicas.iter().filter(|_| !failures.is_empty());
        for replica in replicas {
            for message in replica.messages() {
                let _ = write!(text, "\n  {:?}: {message}", replica.fate);
            }
        }
        self.rounds.push(round);
        text
    }

    pub(crate) fn holds(&self) -> bool {
        self.count(|round| !self.failures(round).is_empty()) == 0
    }

    fn count(&self, is_counted: impl Fn(&Round) -> bool) -> usize {
        self.rounds.iter().filter(|round| is_counted(round)).count()
    }

    pub(crate) fn text(&self) -> String {
        let has_failed = |round: &Round| !self.failures(round).is_empty();
        let kinds = KillKind::EACH.map(|kind| {
            let all = self.count(|round| round.kind == kind);
            let failed = self.count(|round| round.kind == kind && has_failed(round));
            format!("{kind} {failed} of {all}")
        });
        let starts = || self.rounds.iter().filter_map(|round| round.next.as_ref());
        let allowed = self.rounds.iter().map(|round| round.allowed).max();
        let allowed = allowed.unwrap_or_default();
        format!(
            "{} on {}: {} of {} rounds without a failure (failed by kind: {}); {} with a statement of the killed command alive at the next \
             start; {} killed within {WINDOW:?} of a commit without its record\n  from the kill \
             to the next start {} ({} s allowed, {} s if only dlock was killed, and the stop of the statement; {} late); from KILL, or the last statement, to the end of the \
             session {}\n",
            self.name,
            self.flavour,
            self.count(|round| !has_failed(round)),
            self.rounds.len(),
            kinds.join(", "),
            self.count(Round::is_violated),
            self.count(|round| round.window().is_some()),
            middle_and_longest(starts().map(|next| next.after)),
            seconds(allowed),
            seconds(KillKind::Parent.allowed(allowed)),
            self.count(Round::is_late),
            middle_and_longest(starts().filter_map(|next| next.stop))
        )
    }
}

fn middle_and_longest(durations: impl Iterator<Item = Duration>) -> String {
    let durations: Vec<Duration> = durations.collect();
    if durations.is_empty() {
        return "not observed".to_owned();
    }
    let [median, longest] = [50, 100].map(|part| seconds(percentile(&durations, part)));
    let count = durations.len();
    format!("median {median} s, maximum {longest} s, n={count}")
}
