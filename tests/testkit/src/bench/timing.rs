//! Compares the run times of whole processes, from before the fork to after the wait, on `CLOCK_MONOTONIC`.
//!
//! In each round, every contestant runs once, so other load of the machine affects all contestants equally. The ratio
//! of two contestants is calculated for each round. The order of the contestants is rotated by one position in each
//! round and reversed in every second round, so no contestant always follows the same contestant.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench::sample::percentile;

/// The kernel's unit of time in `/proc/PID/stat`. `USER_HZ` is 100 on every Linux that dlock supports.
const TICK: Duration = Duration::from_millis(10);

/// The work whose run time is measured, and its name in the table.
pub struct Contestant {
    name: String,
    work: Work,
}

enum Work {
    Program(Command),
    /// A write and a sync of a file. This is the part of a commit that depends on the disk.
    Sync(File),
}

/// The run times of one contestant, one for each round.
pub struct Record {
    pub name: String,
    pub times: Vec<Duration>,
    /// Mean CPU time (user and system) of the process and its children. None for work without a process.
    pub cpu: Option<Duration>,
}

impl Contestant {
    pub fn program(name: &str, command: Command) -> Self {
        Self {
            name: name.to_owned(),
            work: Work::Program(command),
        }
    }

    pub fn sync(name: &str, file: &Path) -> Self {
        Self {
            name: name.to_owned(),
            work: Work::Sync(File::create(file).expect("the file can be written")),
        }
    }

    fn run(&mut self) -> Duration {
        let start = Instant::now();
        match &mut self.work {
            Work::Program(command) => {
                let status = command.status();
                let time = start.elapsed();
                let status = status.unwrap_or_else(|error| panic!("{}: {error}", self.name));
                assert!(status.success(), "{}: {status}", self.name);
                time
            }
            Work::Sync(file) => {
                let written = file.write_all(&[0; 4096]).and_then(|()| file.sync_data());
                written.expect("the file can be written");
                start.elapsed()
            }
        }
    }

    /// Returns the mean CPU time of `runs` successive runs. The kernel's unit of time is too coarse for a single run.
    /// None for work without a process.
    fn cpu(&mut self, runs: usize) -> Option<Duration> {
        if let Work::Sync(_) = self.work {
            return None;
        }
        let before = children();
        for _ in 0..runs {
            self.run();
        }
        let runs = u32::try_from(runs.max(1)).expect("the number of runs fits into 32 bits");
        Some(children().saturating_sub(before) / runs)
    }
}

/// Runs all contestants `rounds` times, after `warm_up` rounds whose times are discarded.
pub fn run(mut contestants: Vec<Contestant>, warm_up: usize, rounds: usize) -> Vec<Record> {
    assert!(rounds > 0, "ROUNDS must be at least 1");
    let count = contestants.len();
    let mut times = vec![Vec::with_capacity(rounds); count];
    for round in 0..warm_up + rounds {
        for turn in 0..count {
            let position = if round % 2 == 0 {
                turn
            } else {
                count - 1 - turn
            };
            let index = (position + round) % count;
            let time = contestants[index].run();
            if round >= warm_up {
                times[index].push(time);
            }
        }
    }
    let record = |(mut contestant, times): (Contestant, _)| Record {
        cpu: contestant.cpu(rounds),
        name: contestant.name,
        times,
    };
    contestants.into_iter().zip(times).map(record).collect()
}

/// Returns the CPU time of all children for which this process has waited, including the descendants for which they
/// have waited.
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    // The second field is the process name in parentheses, which may contain any characters. The fields 16 and 17 are
    // cutime and cstime.
    let (_, rest) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let ticks = rest.split(' ').skip(13).take(2);
    ticks
        .map(|field| TICK * field.parse().expect("a number of ticks"))
        .sum()
}

/// Returns the median of `values`. Panics if there are no values.
pub fn median<T: PartialOrd + Copy>(values: impl Iterator<Item = T>) -> T {
    percentile(&values.collect::<Vec<_>>(), 50)
}
