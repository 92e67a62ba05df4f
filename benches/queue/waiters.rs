//! A holder that runs until it is released, and the contenders that wait for it.
//!
//! All processes write their standard error to one file. Only messages about waiting are expected in it; all others are
//! shown on the page. Every process is waited for.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::competitor::Competitor;
use crate::fifo::{eventually, make_fifo, reader_came};
use crate::timestamp_command::{self, Mark};

/// Time from the point where all contenders wait to the release of the holder, in which waiters finish their set-up.
const SETTLING: Duration = Duration::from_millis(300);

/// Pause between two checks of the queue: a server with a thousand sessions needs time to list them.
const LOOKING: Duration = Duration::from_millis(100);

/// The name of the first holder.
const FIRST: &str = "first";

/// A holder and its waiters.
pub(crate) struct Crowd<'a> {
    competitor: &'a Competitor,
    pub(crate) action: String,
    log: PathBuf,
    said: PathBuf,
    /// Write end of the fifo; the holder's command ends when it is closed.
    stay: Option<File>,
    running: Vec<Child>,
}

/// The result of a crowd.
pub(crate) struct Outcome {
    /// The runs of the first holder's command and of all others, in order of start.
    pub(crate) marks: Vec<Mark>,
    /// Number of processes that failed.
    pub(crate) failed: usize,
    /// Unexpected lines on standard error.
    pub(crate) noise: Vec<String>,
}

impl<'a> Crowd<'a> {
    /// Starts the holder, and returns when its command runs.
    pub(crate) fn behind(competitor: &'a Competitor, folder: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let action = format!("crowd-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = |kind: &str| folder.join(format!("{action}.{kind}"));
        let mut crowd = Self {
            competitor,
            log: path("log"),
            said: path("said"),
            action: action.clone(),
            stay: None,
            running: Vec::new(),
        };
        File::create(&crowd.log).expect("a file can be created");
        File::create(&crowd.said).expect("a file can be created");
        let fifo = path("fifo");
        make_fifo(&fifo);
        crowd.start(FIRST, fifo.to_str().expect("the path is UTF-8"));
        crowd.stay = Some(reader_came(&fifo));
        crowd
    }

    /// Starts one more contender, whose command runs for `hold`.
    pub(crate) fn join(&mut self, hold: Duration) {
        let name = name(self.running.len() - 1);
        self.start(&name, &hold.as_micros().to_string());
    }

    /// Starts `count` contenders one after the other, at least `pace` apart.
    pub(crate) fn join_in_turn(&mut self, count: u32, pace: Duration, hold: Duration) {
        for _ in 0..count {
            let start = Instant::now();
            self.join(hold);
            thread::sleep(pace.saturating_sub(start.elapsed()));
        }
    }

    /// Waits until all contenders wait.
    pub(crate) fn gathered(&self) {
        eventually("all contenders wait", LOOKING, || {
            self.competitor.waiting(&self.action) == self.running.len() - 1
        });
        thread::sleep(SETTLING);
    }

    /// Returns the process ids of the waiters.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().skip(1).map(Child::id)
    }

    /// Lets the holder end, and returns when all contenders have ended.
    pub(crate) fn let_go(mut self) -> Outcome {
        drop(self.stay.take());
        let mut failed = 0;
        for child in &mut self.running {
            failed += usize::from(!child.wait().expect("a child can be waited for").success());
        }
        self.running.clear();
        let said = fs::read_to_string(&self.said).expect("the file can be read");
        Outcome {
            marks: timestamp_command::read(&self.log),
            failed,
            noise: said
                .lines()
                .filter(|line| !is_notice(line))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn start(&mut self, name: &str, hold: &str) {
        let said = OpenOptions::new().append(true).open(&self.said);
        let command = timestamp_command::command(&self.log, name, hold);
        let child = self
            .competitor
            .lock(&self.action, name, &command)
            .stderr(Stdio::from(said.expect("the file can be opened")))
            .spawn();
        self.running.push(child.expect("the program starts"));
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        // There are processes left only after a panic.
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Outcome {
    /// Returns the times from the end of each command to the start of the next. None if they overlapped.
    pub(crate) fn gaps(&self) -> Vec<Option<Duration>> {
        let pairs = self.marks.windows(2);
        pairs
            .map(|pair| pair[1].start.checked_sub(pair[0].end))
            .collect()
    }

    /// Returns the names of the waiters, in the order in which they were served.
    pub(crate) fn served(&self) -> Vec<String> {
        let names = self.marks.iter().map(|mark| mark.name.clone());
        names.filter(|name| name != FIRST).collect()
    }
}

/// Returns the names of `count` contenders, in order of arrival.
pub(crate) fn names(count: u32) -> Vec<String> {
    (0..count as usize).map(name).collect()
}

fn name(number: usize) -> String {
    format!("{number:04}")
}

fn is_notice(line: &str) -> bool {
    line.starts_with("dlock: ") && line.contains(" held by ")
}
