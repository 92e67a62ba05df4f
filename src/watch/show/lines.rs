//! What is held as plain text, a block at each interval, or one line of JSON. For logs and pipes:
//! nothing in it moves a cursor, and each block is out before the next question.

use std::time::UNIX_EPOCH;

use super::rounds::{Event, Rounds};
use crate::exit::Status;
use crate::report::log::What;
use crate::report::status::{json, table};
use crate::report::{self, Reader, Report};
use crate::sys::signal;
use crate::watch::heard::Heard;

/// Prints it until a signal comes or nobody reads any more.
///
/// # Errors
/// When the output takes nothing.
pub(super) fn run(
    rounds: &mut Rounds,
    first: Heard,
    as_json: bool,
    report: &Report,
) -> anyhow::Result<Status> {
    if let Some(difference) = first.clock_difference() {
        report.notice(What::ClockDifference, difference);
    }
    let mut next = Event::Survey(Ok(Box::new(first)));
    let mut said = String::new();
    loop {
        match next {
            Event::Survey(Ok(heard)) => {
                said.clear();
                let text = match as_json {
                    true => json(&heard.survey, heard.at_ours)?,
                    false => block(&heard),
                };
                if report::stream(&text)? == Reader::Gone {
                    return Ok(Status::OK);
                }
            }
            Event::Survey(Err(failure)) => {
                let why = failure.to_string();
                if why != said {
                    report.notice(What::Waiting, &why);
                    said = why;
                }
            }
            Event::Signal(number) if signal::is_deadly(number) => {
                return Ok(Status::from_signal(number));
            }
            _ => {}
        }
        next = rounds.wait();
    }
}

/// The server's time, the tables, and an empty line.
fn block(heard: &Heard) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + heard.server_time());
    let tables = table(&heard.survey.locks, &heard.survey.waiters);
    format!("{time}\n{tables}\n")
}
