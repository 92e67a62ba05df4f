//! Prints the state of the locks at each interval, as a block of plain text or as one line of JSON. The output is for
//! logs and pipes, so it does not move the cursor, and each block is flushed before the next request.

use std::time::UNIX_EPOCH;

use super::poller::{PollEvent, Poller};
use crate::exit::Status;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::status::{Connections, json, table};
use crate::report::{self, Reader, Report, messages};
use crate::sys::signal;

/// Prints until a fatal signal arrives or the reader of stdout closes the pipe.
///
/// # Errors
/// Fails if the output cannot be written.
pub(super) fn run(
    poller: &mut Poller,
    first: TimedSnapshot,
    as_json: bool,
    layout: Layout,
    report: &Report,
) -> anyhow::Result<Status> {
    if let Some(difference) = first.clock_difference() {
        report.info(EventKind::ClockDifference, difference);
    }
    for text in messages::skipped_hosts(&first.snapshot) {
        report.info(EventKind::HostSkipped, text);
    }
    if first.snapshot.is_read_only {
        report.info(EventKind::ReadOnly, messages::READ_ONLY);
    }
    let mut next = PollEvent::Snapshot(Ok(Box::new(first)));
    let mut last_failure = String::new();
    loop {
        match next {
            PollEvent::Snapshot(Ok(snapshot)) => {
                last_failure.clear();
                let text = match as_json {
                    true => json(&snapshot.snapshot, snapshot.at_wall, Connections::Shown)?,
                    false => block(&snapshot, layout),
                };
                if report::stream(&text)? == Reader::Gone {
                    return Ok(Status::OK);
                }
            }
            PollEvent::Snapshot(Err(failure)) => {
                let why = failure.to_string();
                if why != last_failure {
                    report.info(EventKind::Waiting, &why);
                    last_failure = why;
                }
            }
            PollEvent::Signal(number) if signal::is_fatal(number) => {
                return Ok(Status::from_signal(number));
            }
            _ => {}
        }
        next = poller.wait();
    }
}

/// Formats a block: the server's time, the tables, and an empty line.
fn block(snapshot: &TimedSnapshot, layout: Layout) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + snapshot.server_time());
    let tables = table(&snapshot.snapshot, layout);
    format!("{time}\n{tables}\n")
}
