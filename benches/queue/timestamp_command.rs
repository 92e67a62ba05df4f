//! The command under the lock. It is this program in another mode, and it records when it started and ended.
//!
//! `mark LOG NAME HOLD` reads the clock at its start and at its end, and appends one line to LOG. HOLD is the run time
//! in microseconds, or a fifo that the command reads until the fifo is closed. The command does not use a shell or
//! `date`, because their run times would dominate the measurement.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const WORD: &str = "mark";

/// The start and end of one command.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) name: String,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// Returns the time of `CLOCK_MONOTONIC`, which all processes of a machine share.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).expect("the time is positive")
}

/// Returns true if the command line of this process is `mark LOG NAME HOLD`.
pub(crate) fn is_selected() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == WORD)
}

pub(crate) fn run() {
    let start = now();
    let arguments: Vec<OsString> = std::env::args_os().skip(2).collect();
    let [log, name, hold] = arguments.as_slice() else {
        panic!("usage: {WORD} LOG NAME HOLD");
    };
    match hold.to_str().and_then(|hold| hold.parse().ok()) {
        Some(micros) => thread::sleep(Duration::from_micros(micros)),
        // The read ends when the last writer closes the fifo.
        None => drop(fs::read(hold).expect("the fifo can be read")),
    }
    let name = name.to_str().expect("names are UTF-8");
    let mut log = OpenOptions::new()
        .append(true)
        .open(log)
        .expect("the log can be opened");
    let end = now();
    // The line is one write, so lines of different commands never mix.
    log.write_all(format!("{name} {} {}\n", start.as_nanos(), end.as_nanos()).as_bytes())
        .expect("the log can be written");
}

/// Returns the command line of `mark LOG NAME HOLD`.
pub(crate) fn command(log: &Path, name: &str, hold: &str) -> [OsString; 5] {
    let program = std::env::current_exe().expect("the path of this program can be read");
    [
        program.as_os_str(),
        WORD.as_ref(),
        log.as_ref(),
        name.as_ref(),
        hold.as_ref(),
    ]
    .map(Into::into)
}

/// Reads the marks in `log`, and sorts them by start.
pub(crate) fn read(log: &Path) -> Vec<Mark> {
    let text = fs::read_to_string(log).expect("the log can be read");
    let time = |word: &str| Duration::from_nanos(word.parse().expect("a number of nanoseconds"));
    let mut marks: Vec<Mark> = text
        .lines()
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [name, start, end] => Mark {
                name: name.to_owned(),
                start: time(start),
                end: time(end),
            },
            _ => panic!("not a line of the log: {line}"),
        })
        .collect();
    marks.sort_by_key(|mark| mark.start);
    marks
}
