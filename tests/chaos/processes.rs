//! The processes of a run, as the kernel shows them: finding them by the mark in their environment, and signalling
//! them without ever hitting another that got the same number.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::command::{MARK, RUN};
use crate::history::Micros;

/// A process that carries our mark.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Which run of dlock it belongs to.
    pub(crate) run: u64,
    pub(crate) program: PathBuf,
    /// Its command line, for people.
    pub(crate) words: String,
}

/// All living processes with this mark.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| look(pid, mark))
        .collect()
}

/// Those of one run.
pub(crate) fn of_run(mark: &str, run: u64) -> Vec<Process> {
    let mut processes = marked(mark);
    processes.retain(|process| process.run == run);
    processes
}

/// Sends `signal` to `pid` if that carries the mark; whether it was sent.
pub(crate) fn send(pid: u32, mark: &str, signal: Signal) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // Looked at with the descriptor open: it stands for this process or for one that is gone, never for a later one.
    environment(pid, MARK).is_some_and(|found| found == mark)
        && pidfd_send_signal(process, signal).is_ok()
}

/// Whether `pid` is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// When `pid` was started, to a hundredth of a second.
pub(crate) fn started(pid: u32) -> Option<Micros> {
    /// What the kernel counts in for everybody who asks (`USER_HZ`), and where it says so.
    const TICK: Micros = 10_000;
    const FIELD: usize = 19;
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = text.rsplit_once(") ")?.1.split(' ').nth(FIELD)?;
    Some(ticks.parse::<Micros>().ok()? * TICK)
}

fn look(pid: u32, mark: &str) -> Option<Process> {
    if environment(pid, MARK)? != mark {
        return None;
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(Process {
        pid,
        parent: stat(pid)?.1,
        run: environment(pid, RUN)?.parse().ok()?,
        program: fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe")).ok()?,
        words: String::from_utf8_lossy(&words).replace('\0', " "),
    })
}

/// The state and the parent of `pid`.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut words = text.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// The variable `name` that `pid` was started with; a zombie has none.
fn environment(pid: u32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    variables
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.to_owned())
}
