//! Holders that run until the benchmark releases them, and the contenders that wait for the lock.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::tied;
use testkit::cli_runner::eventually;
use testkit::command::{make_fifo, wait_for_reader};

use crate::competitor::{Competitor, Lock, Shape};
use crate::timestamp_command::{self, Mark};

/// Time after the arrival of the last waiter. Waiters normally finish their set-up within this time, and the head of the
/// queue then waits on the server.
pub(crate) const SETTLED: Duration = Duration::from_millis(400);

/// Holders and their waiters.
pub(crate) struct Crowd<'a> {
    competitor: Competitor<'a>,
    pub(crate) lock: Lock<'a>,
    holders: Vec<Child>,
    /// Write ends of fifos. The command of a holder ends when its write end is closed.
    fifos: Vec<File>,
    labels: Vec<String>,
    waiters: Vec<Child>,
}

impl<'a> Crowd<'a> {
    /// Starts the holders. Returns once their commands run.
    pub(crate) fn start(competitor: Competitor<'a>, folder: &'a Path, holders: &[Shape]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("crowd-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut crowd = Self {
            competitor,
            lock: Lock { name, folder },
            holders: Vec::new(),
            fifos: Vec::new(),
            labels: Vec::new(),
            waiters: Vec::new(),
        };
        File::create(crowd.lock.path("log")).expect("a file can be created");
        for (number, shape) in holders.iter().enumerate() {
            let label = format!("holder-{number}");
            let fifo = crowd.lock.path(&label);
            make_fifo(&fifo);
            let hold = fifo.to_str().expect("the path is UTF-8");
            let holder = crowd.contend(*shape, &label, hold);
            crowd.holders.push(holder);
            crowd.fifos.push(wait_for_reader(&fifo));
        }
        crowd
    }

    /// Starts `count` waiters, at least `pace` apart, which hold the lock for `hold`. Returns once they are in the queue.
    pub(crate) fn add(&mut self, count: usize, shape: Shape, pace: Duration, hold: Duration) {
        for number in 0..count {
            let start = Instant::now();
            let label = label(number);
            let waiter = self.contend(shape, &label, &hold.as_micros().to_string());
            self.waiters.push(waiter);
            self.labels.push(label);
            thread::sleep(pace.saturating_sub(start.elapsed()));
        }
        eventually("all contenders wait", || {
            self.competitor.waiting(&self.lock, &self.labels) == count
        });
        thread::sleep(SETTLED);
    }

    /// Releases the first `count` holders, and the others when all waiters have ended. Returns the starts and ends of all
    /// commands, sorted by start.
    pub(crate) fn release(mut self, count: usize) -> Vec<Mark> {
        let others = self.fifos.split_off(count);
        self.fifos.clear();
        let name = self.competitor.name();
        let end = |children: Vec<Child>| {
            for mut child in children {
                let status = child.wait().expect("a child can be waited for");
                assert!(status.success(), "{name}: {status}");
            }
        };
        end(self.waiters);
        drop(others);
        end(self.holders);
        timestamp_command::read(&self.lock.path("log"))
    }

    fn contend(&self, shape: Shape, label: &str, hold: &str) -> Child {
        let contender = self.competitor.contender(&self.lock, shape, label, hold);
        let child = tied(&contender).stderr(Stdio::inherit()).spawn();
        child.expect("setpriv is installed")
    }
}

/// Returns the name of the waiter with this number.
pub(crate) fn label(number: usize) -> String {
    format!("{number:04}")
}

/// Returns the time from the end of each command to the start of the next one. Panics if two commands overlapped.
pub(crate) fn gaps(marks: &[Mark]) -> Vec<Duration> {
    let gap = |pair: &[Mark]| pair[1].start.checked_sub(pair[0].end);
    let gaps = marks.windows(2).map(gap).collect::<Option<_>>();
    gaps.unwrap_or_else(|| panic!("two commands overlapped: {marks:?}"))
}
