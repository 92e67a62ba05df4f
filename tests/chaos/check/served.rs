//! Checks that every contender is served after the faults, and that there was at least one grant.

use super::Violation;
use crate::schedule::ContenderKind;
use crate::timeline::{Run, Timeline};

pub(crate) fn served(timeline: &Timeline) -> Vec<Violation> {
    let Some(quiet) = timeline.quiet else {
        return vec![Violation {
            at: 0,
            action: None,
            what: "the fault phase never ended".to_owned(),
        }];
    };
    let violation = |run: &Run| {
        let end = run.end.as_ref();
        let end = end.filter(|end| timeline.overdue.is_none_or(|overdue| end.at < overdue));
        let what = match end {
            None => "was not served".to_owned(),
            Some(end) if end.status == Some(98) && timeline.is_refused_after_loss(run.number) => {
                return None;
            }
            // Its program was served, and another checker requires a cause for a release that is not confirmed.
            Some(end)
                if end.status == Some(69)
                    && run.finished.is_some()
                    && run.plan.kind == ContenderKind::HoldJson =>
            {
                return None;
            }
            Some(end)
                if run.launched >= quiet
                    && run.plan.wait.is_none()
                    && end.status != Some(run.plan.exit) =>
            {
                format!(
                    "ended with {:?} after the faults; standard error: {:?}",
                    end.status, end.stderr
                )
            }
            Some(_) => return None,
        };
        Some(Violation::new(
            run.launched,
            &run.action,
            format!("run {} {what}", run.number),
        ))
    };
    let mut violations: Vec<Violation> = timeline.runs.values().filter_map(violation).collect();
    if timeline.grants().is_empty() {
        violations.push(Violation {
            at: quiet,
            action: None,
            what: "there was no grant".to_owned(),
        });
    }
    violations
}
