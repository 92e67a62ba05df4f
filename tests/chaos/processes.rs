//! Finds the processes of a chaos run by the mark in their environment, and sends signals to them. A signal never
//! reaches a different process that has reused the process id.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::history::Micros;
use crate::worker::{MARK, RUN};

/// A process with the mark of the chaos run.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Run of dlock to which the process belongs.
    pub(crate) run: u64,
    pub(crate) program: PathBuf,
    pub(crate) words: String,
}

pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| read_process(pid, mark))
        .collect()
}

pub(crate) fn of_run(mark: &str, run: u64) -> Vec<Process> {
    let mut processes = marked(mark);
    processes.retain(|process| process.run == run);
    processes
}

/// Sends `signal` to `pid` if that process has the mark. Returns true if the signal was sent.
pub(crate) fn send(pid: u32, mark: &str, signal: Signal) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // The mark is read while the pidfd is open. The pidfd always refers to the same process, never to a later process
    // with the same id.
    environment(pid, MARK).is_some_and(|found| found == mark)
        && pidfd_send_signal(process, signal).is_ok()
}

/// Returns the start time of `pid`, with a resolution of 10 ms. None if the process does not exist.
pub(crate) fn started(pid: u32) -> Option<Micros> {
    /// The kernel's unit of time in `/proc/PID/stat` (`USER_HZ`).
    const TICK: Micros = 10_000;
    stat::<Micros>(pid, 19).map(|ticks| ticks * TICK)
}

fn read_process(pid: u32, mark: &str) -> Option<Process> {
    if environment(pid, MARK)? != mark {
        return None;
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(Process {
        pid,
        parent: stat(pid, 1)?,
        run: environment(pid, RUN)?.parse().ok()?,
        program: fs::read_link(format!("/proc/{pid}/exe")).ok()?,
        words: String::from_utf8_lossy(&words).replace('\0', " "),
    })
}

/// Returns a number in `/proc/PID/stat`. The field after the process name has the index 0. None if the process does not
/// exist.
fn stat<T: FromStr>(pid: u32, field: usize) -> Option<T> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name is in parentheses and may contain any characters.
    let (_, fields) = text.rsplit_once(") ")?;
    fields.split(' ').nth(field)?.parse().ok()
}

/// Returns the environment variable `name` of `pid`. None if it is not set or the process is a zombie.
fn environment(pid: u32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    variables
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.to_owned())
}
