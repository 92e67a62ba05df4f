//! Everybody is served when the faults are over, and something happened at all.

use super::Violation;
use crate::story::{Run, Story};

pub(crate) fn served(story: &Story) -> Vec<Violation> {
    let Some(calm) = story.calm else {
        return vec![Violation {
            at: 0,
            action: None,
            what: "it never became calm".to_owned(),
        }];
    };
    let judge = |run: &Run| {
        let end = run.end.as_ref();
        let end = end.filter(|end| story.overdue.is_none_or(|overdue| end.at < overdue));
        let what = match end {
            None => "was not served".to_owned(),
            Some(end)
                if run.asked >= calm
                    && run.plan.wait.is_none()
                    && end.status != Some(run.plan.exit) =>
            {
                format!(
                    "ended with {:?} in calm; it said {:?}",
                    end.status, end.stderr
                )
            }
            Some(_) => return None,
        };
        Some(Violation::new(
            run.asked,
            &run.action,
            format!("run {} {what}", run.number),
        ))
    };
    let mut violations: Vec<Violation> = story.runs.values().filter_map(judge).collect();
    if story.grants().is_empty() {
        violations.push(Violation {
            at: calm,
            action: None,
            what: "nobody ever got anything".to_owned(),
        });
    }
    violations
}
