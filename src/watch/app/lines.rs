//! Prints the state of the locks at each interval, as a block of plain text or as one line of JSON. For logs and pipes:
//! the output does not move the cursor, and each block is flushed before the next request.

use std::time::UNIX_EPOCH;

use super::poller::{Event, Rounds};
use crate::exit::Status;
use crate::report::log::EventKind;
use crate::report::status::{json, table};
use crate::report::{self, Reader, Report};
use crate::sys::signal;
use crate::watch::heard::Heard;

/// Prints until a fatal signal arrives or the reader of the output is gone.
///
/// # Errors
/// Fails if the output cannot be written.
pub(super) fn run(
    rounds: &mut Rounds,
    first: Heard,
    as_json: bool,
    report: &Report,
) -> anyhow::Result<Status> {
    if let Some(difference) = first.clock_difference() {
        report.info(EventKind::ClockDifference, difference);
    }
    let mut next = Event::Survey(Ok(Box::new(first)));
    let mut last_failure = String::new();
    loop {
        match next {
            Event::Survey(Ok(heard)) => {
                last_failure.clear();
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
                if why != last_failure {
                    report.info(EventKind::Waiting, &why);
                    last_failure = why;
                }
            }
            Event::Signal(number) if signal::is_fatal(number) => {
                return Ok(Status::from_signal(number));
            }
            _ => {}
        }
        next = rounds.wait();
    }
}

/// Returns the server's time, the tables, and an empty line.
fn block(heard: &Heard) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + heard.server_time());
    let tables = table(&heard.survey.locks, &heard.survey.waiters);
    format!("{time}\n{tables}\n")
}
