//! Checks that every contender is served after the faults, that there was at least one grant, and that no session of
//! another program ends.

use super::Violation;
use crate::history::{Event, Line};
use crate::schedule::ContenderKind;
use crate::timeline::{Run, Timeline};

pub(crate) fn served(timeline: &Timeline) -> Vec<Violation> {
    let Some(quiet) = timeline.quiet else {
        let what = "the fault phase never ended".to_owned();
        return vec![Violation::new(0, None, what)];
    };
    let violation = |run: &Run| {
        let end = run.end.as_ref();
        let end = end.filter(|end| timeline.overdue.is_none_or(|overdue| end.at < overdue));
        let what = match end.map(|end| (end, end.status)) {
            None => "was not served".to_owned(),
            Some((_, Some(98))) if timeline.is_refused_after_loss(run.number) => return None,
            // Another checker requires a success for a run that is skipped.
            Some((_, Some(0))) if run.start.is_none() => return None,
            // Its program was served, and another checker requires a cause for a release that is not confirmed.
            Some((_, Some(69)))
                if run.finished.is_some() && run.plan.kind == ContenderKind::HoldJson =>
            {
                return None;
            }
            Some((end, status))
                if run.launched >= quiet
                    && run.plan.wait.is_none()
                    && status != Some(run.plan.exit) =>
            {
                let stderr = &end.stderr;
                format!("ended with {status:?} after the faults; standard error: {stderr:?}")
            }
            Some(_) => return None,
        };
        let what = format!("run {} {what}", run.number);
        Some(Violation::new(run.launched, &*run.action, what))
    };
    let mut violations: Vec<Violation> = timeline.runs.values().filter_map(violation).collect();
    if timeline.grants().is_empty() {
        violations.push(Violation::new(quiet, None, "there was no grant".to_owned()));
    }
    violations
}

/// Checks also the sessions whose descriptor the command has inherited.
pub(crate) fn bystanders(timeline: &Timeline) -> Vec<Violation> {
    let violation = |line: &Line| {
        let what = match line.run {
            Some(run) => format!("the session of the program that started run {run} has ended"),
            None => "the session of a program that started no dlock has ended".to_owned(),
        };
        Violation::new(line.at, line.action.as_deref(), what)
    };
    let lines = timeline.lines.iter();
    let ended = lines.filter(|line| line.event == Event::Session { is_alive: false });
    ended.map(violation).collect()
}
