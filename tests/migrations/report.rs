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

/// Returns the first line of the report, which describes the run.
pub(crate) fn first_line(options: &Options) -> String {
    let timed = match options.is_timed {
        true => "a late start is a failure",
        false => "durations are not checked",
    };
    let tools: Vec<&str> = options.tools.iter().map(|tool| tool.name).collect();
    format!(
        "migrations: seed {}; {} rounds of each of {tools:?}, whose ALTER copies for {:?}; {} rounds of an ALTER of {:?}; \
         ttl {:?}; {timed}",
        options.seed,
        options.rounds,
        options.migration_time(),
        options.alters,
        options.alter_time(),
        options.ttl()
    )
}

/// Counts of all rounds of one tool on one server.
pub(crate) struct Tally {
    flavour: Flavour,
    name: &'static str,
    is_timed: bool,
    rounds: usize,
    failed: usize,
    /// Rounds and failed rounds of each kind of kill, in the order of [`KillKind::EACH`].
    kinds: [[usize; 2]; 3],
    /// Rounds in which a statement of the killed command was alive at the next start.
    violated: usize,
    /// Rounds in which an idle session of the killed command was in the process list at the next start.
    idle: usize,
    windows: usize,
    late: usize,
    /// Times from the kill to the next start.
    starts: Vec<Duration>,
    /// Longest time from a KILL to the end of the session in each round in which this was observed.
    stops: Vec<Duration>,
    allowed: Duration,
}

impl Tally {
    pub(crate) fn new(flavour: Flavour, name: &'static str, options: &Options) -> Self {
        Self {
            flavour,
            name,
            is_timed: options.is_timed,
            rounds: 0,
            failed: 0,
            kinds: [[0; 2]; 3],
            violated: 0,
            idle: 0,
            windows: 0,
            late: 0,
            starts: Vec::new(),
            stops: Vec::new(),
            allowed: Duration::ZERO,
        }
    }

    /// Counts a round, and returns its line of the report.
    pub(crate) fn count(&mut self, number: u32, round: &Round) -> String {
        let mut failures = round.failures();
        if round.is_late() {
            self.late += 1;
            if self.is_timed {
                failures.push("late".to_owned());
            }
        }
        let window = round.window();
        self.rounds += 1;
        self.failed += usize::from(!failures.is_empty());
        for (kind, counts) in KillKind::EACH.iter().zip(&mut self.kinds) {
            if *kind == round.kind {
                counts[0] += 1;
                counts[1] += usize::from(!failures.is_empty());
            }
        }
        self.violated += usize::from(round.is_violated());
        self.windows += usize::from(window.is_some());
        self.allowed = self.allowed.max(round.allowed);
        let Round { kind, moment, .. } = round;
        let mut text = format!(
            "{} {} round {number}: {kind} killed {moment}",
            self.flavour, self.name
        );
        // Writing to a String cannot fail.
        if let Some(next) = &round.next {
            self.idle += usize::from(next.idle > 0);
            self.starts.push(next.after);
            self.stops.extend(next.stop);
            let _ = write!(
                text,
                "; replica {} started {} s later, with {} statements alive",
                next.replica,
                seconds(next.after),
                next.active.len()
            );
            if let Some(last) = next.last_active {
                let _ = write!(
                    text,
                    "; last statement seen {} s after the kill",
                    seconds(last)
                );
            }
            if let Some(stop) = next.stop {
                let _ = write!(text, "; stopped in {} s", seconds(stop));
            }
        }
        let [load, ..] = host::load();
        let _ = write!(text, "; load {load:.2}");
        if let Some(window) = window {
            let _ = write!(
                text,
                "\n  NOT CHECKED, killed between a commit and its record: {window}"
            );
        }
        for failure in &failures {
            let _ = write!(text, "\n  FAILURE: {failure}");
        }
        if !failures.is_empty() {
            for replica in &round.replicas {
                for message in replica.messages() {
                    let _ = write!(text, "\n  {:?}: {message}", replica.fate);
                }
            }
        }
        text
    }

    /// Returns true if no round has failed.
    pub(crate) fn holds(&self) -> bool {
        self.failed == 0
    }

    /// Returns the summary. It is empty if there were no rounds.
    pub(crate) fn text(&self) -> String {
        if self.rounds == 0 {
            return String::new();
        }
        let kinds = KillKind::EACH.iter().zip(self.kinds);
        let kinds = kinds.map(|(kind, [all, failed])| format!("{kind} {failed} of {all}"));
        let kinds: Vec<String> = kinds.collect();
        format!(
            "{} on {}: {} of {} rounds without a failure (failed by kind: {}); {} with a statement of the killed command alive at the next \
             start, {} with an idle session; {} killed within {WINDOW:?} of a commit without its record\n  from the kill \
             to the next start {} ({} s allowed, {} s if only dlock was killed, and the stop of the statement; {} late); from KILL, or the last statement, to the end of the \
             session {}\n",
            self.name,
            self.flavour,
            self.rounds - self.failed,
            self.rounds,
            kinds.join(", "),
            self.violated,
            self.idle,
            self.windows,
            middle_and_longest(&self.starts),
            seconds(self.allowed),
            seconds(KillKind::Parent.allowed(self.allowed)),
            self.late,
            middle_and_longest(&self.stops)
        )
    }
}

fn middle_and_longest(durations: &[Duration]) -> String {
    if durations.is_empty() {
        return "not observed".to_owned();
    }
    let [median, longest] = [50, 100].map(|part| seconds(percentile(durations, part)));
    format!(
        "median {median} s, maximum {longest} s, n={}",
        durations.len()
    )
}
