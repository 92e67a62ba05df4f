//! A holder that runs until the benchmark releases it, and the contenders that wait for the lock.
//!
//! All processes write their standard error to one file. Messages about waiting are expected, and the page shows all
//! other messages.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::fifo::{eventually, make_fifo, wait_for_reader};

use crate::competitor::Competitor;
use crate::timestamp_command::{self, Mark};

/// Time between the arrival of the last contender in the queue and the release of the holder. Waiters normally finish
/// their set-up within this time.
const SETUP_TIME: Duration = Duration::from_millis(300);

/// Pause between two queries of the queue. A server needs time to list a thousand sessions.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The name of the first holder.
const FIRST: &str = "first";

/// A holder and its waiters.
pub(crate) struct Crowd<'a> {
    competitor: &'a Competitor,
    pub(crate) action: String,
    log: PathBuf,
    stderr: PathBuf,
    /// Write end of the fifo. The holder's command ends when the write end is closed.
    fifo_writer: Option<File>,
    running: Vec<Child>,
}

/// The result for a holder and its waiters.
pub(crate) struct Outcome {
    /// The starts and ends of all commands, sorted by start. The first mark belongs to the first holder.
    pub(crate) marks: Vec<Mark>,
    /// Number of processes that failed.
    pub(crate) failed: usize,
    /// Lines on standard error that are not about waiting.
    pub(crate) unexpected: Vec<String>,
}

impl<'a> Crowd<'a> {
    /// Starts the holder. Returns once the holder's command runs.
    pub(crate) fn start(competitor: &'a Competitor, folder: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let action = format!("crowd-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = |kind: &str| folder.join(format!("{action}.{kind}"));
        let mut crowd = Self {
            competitor,
            log: path("log"),
            stderr: path("stderr"),
            action: action.clone(),
            fifo_writer: None,
            running: Vec::new(),
        };
        File::create(&crowd.log).expect("a file can be created");
        File::create(&crowd.stderr).expect("a file can be created");
        let fifo = path("fifo");
        make_fifo(&fifo);
        crowd.spawn(FIRST, fifo.to_str().expect("the path is UTF-8"));
        crowd.fifo_writer = Some(wait_for_reader(&fifo));
        crowd
    }

    /// Starts another contender, whose command runs for `hold`.
    pub(crate) fn add(&mut self, hold: Duration) {
        let name = name(self.running.len() - 1);
        self.spawn(&name, &hold.as_micros().to_string());
    }

    /// Starts `count` contenders, at least `pace` apart.
    pub(crate) fn add_all(&mut self, count: u32, pace: Duration, hold: Duration) {
        for _ in 0..count {
            let start = Instant::now();
            self.add(hold);
            thread::sleep(pace.saturating_sub(start.elapsed()));
        }
    }

    /// Waits until all contenders are in the queue.
    pub(crate) fn wait_until_queued(&self) {
        eventually("all contenders wait", POLL_INTERVAL, || {
            self.competitor.waiting(&self.action) == self.running.len() - 1
        });
        thread::sleep(SETUP_TIME);
    }

    /// Returns the process ids of the waiters.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().skip(1).map(Child::id)
    }

    /// Releases the holder. Returns once all contenders have ended.
    pub(crate) fn release(mut self) -> Outcome {
        drop(self.fifo_writer.take());
        let mut failed = 0;
        for child in &mut self.running {
            failed += usize::from(!child.wait().expect("a child can be waited for").success());
        }
        self.running.clear();
        let stderr = fs::read_to_string(&self.stderr).expect("the file can be read");
        Outcome {
            marks: timestamp_command::read(&self.log),
            failed,
            unexpected: stderr
                .lines()
                .filter(|line| !is_about_waiting(line))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn spawn(&mut self, name: &str, hold: &str) {
        let stderr = OpenOptions::new().append(true).open(&self.stderr);
        let command = timestamp_command::command(&self.log, name, hold);
        let child = self
            .competitor
            .lock(&self.action, name, &command)
            .stderr(Stdio::from(stderr.expect("the file can be opened")))
            .spawn();
        self.running.push(child.expect("the program starts"));
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        // Processes remain only after a panic.
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Outcome {
    /// Returns the time from the end of each command to the start of the next command. None for two commands that
    /// overlapped.
    pub(crate) fn gaps(&self) -> Vec<Option<Duration>> {
        let pairs = self.marks.windows(2);
        pairs
            .map(|pair| pair[1].start.checked_sub(pair[0].end))
            .collect()
    }

    /// Returns the names of the waiters, in the order in which they acquired the lock.
    pub(crate) fn served(&self) -> Vec<String> {
        let names = self.marks.iter().map(|mark| mark.name.clone());
        names.filter(|name| name != FIRST).collect()
    }
}

/// Returns the names of `count` contenders, in the order of their arrival.
pub(crate) fn names(count: u32) -> Vec<String> {
    (0..count as usize).map(name).collect()
}

fn name(number: usize) -> String {
    format!("{number:04}")
}

fn is_about_waiting(line: &str) -> bool {
    line.starts_with("dlock: ") && line.contains(" held by ")
}
