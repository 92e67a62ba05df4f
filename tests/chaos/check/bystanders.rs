//! Checks that no session of another program ends, not even one whose descriptor the command has inherited.

use super::Violation;
use crate::history::{Event, Line};
use crate::timeline::Timeline;

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

/// Returns the number of checks of such sessions.
pub(crate) fn count(timeline: &Timeline) -> usize {
    let is_check = |line: &&Line| matches!(line.event, Event::Session { .. });
    timeline.lines.iter().filter(is_check).count()
}
