//! The command under the lock: this program again, which writes down when it started and when it ended.
//!
//! `mark LOG NAME HOLD` takes the time first and last and appends one line to LOG. HOLD is how many microseconds to
//! stay, or a fifo to stay for until it is closed. No shell and no `date`: those would be most of what is measured.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const WORD: &str = "mark";

/// One command's stay.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) name: String,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).expect("time is positive")
}

/// Whether this process is to be such a command.
pub(crate) fn is_asked_for() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == WORD)
}

/// Is such a command.
pub(crate) fn run() {
    let start = now();
    let arguments: Vec<OsString> = std::env::args_os().skip(2).collect();
    let [log, name, hold] = arguments.as_slice() else {
        panic!("usage: {WORD} LOG NAME HOLD");
    };
    match hold.to_str().and_then(|hold| hold.parse().ok()) {
        Some(micros) => thread::sleep(Duration::from_micros(micros)),
        // Ends when the last writer does.
        None => drop(fs::read(hold).expect("the fifo can be read")),
    }
    let name = name.to_str().expect("names are UTF-8");
    let mut log = OpenOptions::new().append(true).open(log).expect("the log");
    let end = now();
    // One write: lines of others cannot come in between.
    log.write_all(format!("{name} {} {}\n", start.as_nanos(), end.as_nanos()).as_bytes())
        .expect("the log takes a line");
}

/// The words that make this program `mark LOG NAME HOLD`.
pub(crate) fn command(log: &Path, name: &str, hold: &str) -> [OsString; 5] {
    let program = std::env::current_exe().expect("this program is a file");
    [
        program.into(),
        WORD.into(),
        log.into(),
        name.into(),
        hold.into(),
    ]
}

/// What has been written to `log`, in order of start.
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
