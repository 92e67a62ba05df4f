//! The report of a chaos run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::check::{self, PROPERTIES, Violation, latencies};
use crate::fault_kind::{FaultKind, Victim};
use crate::history::{Event, Line};
use crate::options::Options;
use crate::schedule::ContenderKind;
use crate::timeline::Timeline;
use crate::topology::Topology;

/// Length of a full chaos run in seconds, and the minimum numbers of events in a full chaos run.
const FULL: u64 = 1_800;
const GRANTS: u64 = 3_000;
const TAKEOVERS: u64 = 300;
const EACH_FAULT: u64 = 50;
/// A node of a cluster needs seconds to recover, and only one node at a time has a fault.
const EACH_NODE_FAULT: u64 = 20;

/// Maximum number of violations that are shown for each property, and of history lines before and after each violation.
const MAX_SHOWN: usize = 4;
const BEFORE: usize = 16;
const AFTER: usize = 6;

/// Returns the report as text, and true if all properties hold.
pub(crate) fn report(
    timeline: &Timeline,
    topology: Topology,
    seconds: u64,
    options: &Options,
    folder: &Path,
) -> (String, bool) {
    let mut text = String::new();
    let seed = options.seed;
    let granted: Vec<ContenderKind> = (timeline.grants().values().flatten())
        .map(|(run, _)| run.plan.kind)
        .collect();
    let grants = granted.len();
    let takeovers = check::takeovers(timeline);
    let runs = timeline.runs.len();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "chaos on {topology}: seed {seed}, {seconds} s, {runs} runs, {grants} grants, {takeovers} take-overs"
    );
    let _ = writeln!(text, "history: {}", folder.display());
    let _ = writeln!(text, "  grants by kind of contender: {:?}", counts(granted));
    let stops = timeline.lines.iter().filter_map(|line| match line.event {
        Event::Stopped { cause, .. } => Some(cause),
        _ => None,
    });
    let _ = writeln!(
        text,
        "  programs of holds that had to stop: {:?}",
        counts(stops)
    );
    let mut too_few = Vec::new();
    let mut require = |what: &str, count: usize, full: u64| {
        if (count as u64) * FULL < full * seconds {
            too_few.push(format!(
                "{what}: {count}, but {full} are expected in half an hour"
            ));
        }
    };
    require("grants", grants, GRANTS);
    require("take-overs", takeovers, TAKEOVERS);
    let wanted = (topology.kinds())
        .into_iter()
        .filter(|kind| options.only.is_empty() || options.only.contains(kind));
    for kind in wanted {
        let hits: Vec<i64> = lengths(timeline, kind);
        let _ = writeln!(text, "  {kind:<22} {}", percentiles(&hits));
        let hits = hits.len();
        let full = match kind.victim() {
            Victim::Node => EACH_NODE_FAULT,
            _ => EACH_FAULT,
        };
        require(&kind.to_string(), hits, full);
    }
    for (what, kind, promise) in [
        ("killed", FaultKind::KillParent, "1 s"),
        ("frozen", FaultKind::FreezeParentLong, "2 s"),
    ] {
        let late = latencies(timeline, kind);
        let _ = writeln!(
            text,
            "  take-over after a {what} parent, time after the ttl (at most {promise} promised): {}",
            percentiles(&late)
        );
    }
    // A property proves little if many runs are excused, so the report shows the number of excused runs.
    let excused = check::excused(timeline);
    let actions: Vec<&str> = excused.iter().map(|run| run.action.as_str()).collect();
    let _ = writeln!(
        text,
        "  leases lost only because of a slow machine, not counted as violations: {} {actions:?}",
        excused.len()
    );
    let _ = writeln!(
        text,
        "  checks of sessions of other programs: {}",
        check::session_checks(timeline)
    );
    let (successes, skipped) = check::once_runs(timeline);
    let _ = writeln!(
        text,
        "  runs with --once: {successes} succeeded, {skipped} found a success"
    );
    for what in too_few {
        let _ = writeln!(text, "  too few {what}");
    }
    let mut summary = String::new();
    for (property, checker) in PROPERTIES {
        let violations = checker(timeline);
        let _ = writeln!(text, "  {:>4} violations of: {property}", violations.len());
        for violation in violations.iter().take(MAX_SHOWN) {
            show(&mut text, timeline, violation);
            let _ = writeln!(summary, "  violation of: {property}: {}", violation.what);
        }
    }
    // CI may show only the end of the output.
    text.push_str(&summary);
    (text, summary.is_empty())
}

/// Returns how often each value occurs.
fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

/// Returns the measured lengths, in microseconds, of the faults of this kind that affected a run. The lengths are
/// sorted.
fn lengths(timeline: &Timeline, kind: FaultKind) -> Vec<i64> {
    let hits = timeline
        .faults
        .iter()
        .filter(|fault| fault.kind == kind && fault.hit);
    let lengths = hits.map(|fault| fault.until.saturating_sub(fault.at).cast_signed());
    let mut lengths: Vec<i64> = lengths.collect();
    lengths.sort_unstable();
    lengths
}

fn percentiles(sorted: &[i64]) -> String {
    let at = |percent: usize| {
        let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted
            .get(index)
            .map_or_else(|| "-".to_owned(), |micros| format!("{} ms", micros / 1_000))
    };
    format!(
        "n={} median {} p90 {} p99 {} max {}",
        sorted.len(),
        at(50),
        at(90),
        at(99),
        at(100)
    )
}

fn show(text: &mut String, timeline: &Timeline, violation: &Violation) {
    let Violation { at, action, what } = violation;
    let action = action.as_deref();
    let _ = writeln!(text, "    {at} {}: {what}", action.unwrap_or("-"));
    let is_relevant = |line: &&Line| {
        let is_frequent = matches!(line.event, Event::Counting { .. } | Event::Counted { .. });
        !is_frequent
            && line
                .event
                .action()
                .is_none_or(|other| Some(other) == action)
    };
    let index = timeline.lines.partition_point(|line| line.at <= *at);
    let (before, after) = timeline.lines.split_at(index);
    let mut around: Vec<&Line> = before
        .iter()
        .rev()
        .filter(is_relevant)
        .take(BEFORE)
        .collect();
    around.reverse();
    around.extend(after.iter().filter(is_relevant).take(AFTER));
    for line in around {
        let line = serde_json::to_string(line).expect("a line serializes");
        let _ = writeln!(text, "      {line}");
    }
}
