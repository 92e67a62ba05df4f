//! The report of a chaos run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use testkit::bench::sample::percentile;

use crate::check::{self, PROPERTIES, Violation, latencies};
use crate::fault_kind::FaultKind;
use crate::history::{Event, Line};
use crate::options::Options;
use crate::schedule::ContenderKind;
use crate::timeline::Timeline;
use crate::topology::Topology;

/// Maximum number of violations that are shown for each property, and of history lines before and after each violation.
const MAX_SHOWN: usize = 4;
const BEFORE: usize = 16;
const AFTER: usize = 6;

pub(crate) fn report(
    timeline: &Timeline,
    topology: Topology,
    seconds: u64,
    options: &Options,
    folder: &Path,
) -> (String, bool) {
    let mut text = String::new();
    let granted = timeline.grants().into_values().flatten();
    let granted: Vec<ContenderKind> = granted.map(|(run, _)| run.plan.kind).collect();
    let (runs, grants) = (timeline.runs.len(), granted.len());
    let stops = timeline.lines.iter().filter_map(|line| match line.event {
        Event::Stopped { cause } => Some(cause),
        _ => None,
    });
    let lines = timeline.lines.iter();
    let checks = lines.filter(|line| matches!(line.event, Event::Session { .. }));
    // A property proves little if many runs are excused, so the report shows the number of excused runs.
    let excused = check::excused(timeline);
    let actions: Vec<&str> = excused.iter().map(|run| run.action.as_str()).collect();
    let (successes, skipped) = check::once_runs(timeline);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "chaos on {topology}: seed {}, {seconds} s, {runs} runs, {grants} grants\n\
         history: {}\n  \
         grants by kind of contender: {:?}\n  \
         programs of holds that had to stop: {:?}\n  \
         leases lost only because of a slow machine, not counted as violations: {} {actions:?}\n  \
         checks of sessions of other programs: {}\n  \
         runs with --once: {successes} succeeded, {skipped} found a success",
        options.seed,
        folder.display(),
        counts(granted),
        counts(stops),
        excused.len(),
        checks.count(),
    );
    let mut wanted = topology.kinds();
    wanted.retain(|kind| options.only.is_empty() || options.only.contains(kind));
    for kind in wanted {
        let faults = timeline.faults.values();
        let hits = faults.filter(|fault| fault.kind == kind && fault.hit);
        let lengths = hits.map(|fault| fault.until.saturating_sub(fault.at).cast_signed());
        let lengths: Vec<i64> = lengths.collect();
        let _ = writeln!(text, "  {kind:<22} {}", percentiles(&lengths));
    }
    for (what, kind, promise) in [
        ("killed", FaultKind::KillParent, "1 s"),
        ("frozen", FaultKind::FreezeParentLong, "2 s"),
    ] {
        let late = percentiles(&latencies(timeline, kind));
        let _ = writeln!(
            text,
            "  take-over after a {what} parent, time after the ttl (at most {promise} promised): {late}"
        );
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

fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

fn percentiles(micros: &[i64]) -> String {
    let [median, p90, p99, max] = [50, 90, 99, 100].map(|part| match micros {
        [] => "-".to_owned(),
        _ => format!("{} ms", percentile(micros, part) / 1_000),
    });
    let count = micros.len();
    format!("n={count} median {median} p90 {p90} p99 {p99} max {max}")
}

fn show(text: &mut String, timeline: &Timeline, violation: &Violation) {
    let Violation { at, action, what } = violation;
    let name = action.as_deref().unwrap_or("-");
    let _ = writeln!(text, "    {at} {name}: {what}");
    let is_relevant = |line: &&Line| {
        let is_frequent = matches!(line.event, Event::Counting { .. } | Event::Counted { .. });
        !is_frequent && (line.action.is_none() || line.action == *action)
    };
    let index = timeline.lines.partition_point(|line| line.at <= *at);
    let (before, after) = timeline.lines.split_at(index);
    let before = before.iter().rev().filter(is_relevant).take(BEFORE);
    let before: Vec<&Line> = before.collect();
    let after = after.iter().filter(is_relevant).take(AFTER);
    for line in before.into_iter().rev().chain(after) {
        let line = serde_json::to_string(line).expect("a line serializes");
        let _ = writeln!(text, "      {line}");
    }
}
