//! Checks that every contender is served after the faults, and that there was at least one grant.

use super::Violation;
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
