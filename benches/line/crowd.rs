//! A holder that stays until it is told to go, and those who wait behind it.
//!
//! Every process is waited for. What they say on standard error goes to one file, in which only the notices that
//! belong to waiting are expected; the rest is shown on the page.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fifo::{eventually, make_fifo, reader_came};
use crate::mark::{self, Mark};
use crate::rival::Rival;

/// After everybody is seen in line, until the line moves: for what a waiter does after that.
const SETTLING: Duration = Duration::from_millis(300);

/// Between two looks at who waits: a server with a thousand sessions takes its time to list them.
const LOOKING: Duration = Duration::from_millis(100);

/// The name of the first holder.
const FIRST: &str = "first";

/// Those who wait, and whom they wait for.
pub(crate) struct Crowd<'a> {
    rival: &'a Rival,
    pub(crate) action: String,
    log: PathBuf,
    said: PathBuf,
    /// Closed to let the holder go.
    stay: Option<File>,
    running: Vec<Child>,
}

/// What came of it.
pub(crate) struct Outcome {
    /// The first holder's stay and then everybody's, in order of start.
    pub(crate) marks: Vec<Mark>,
    /// How many processes ended with a failure.
    pub(crate) failed: usize,
    /// Lines on standard error that no waiter should have written.
    pub(crate) noise: Vec<String>,
}

impl<'a> Crowd<'a> {
    /// Starts the holder and returns when its command runs.
    pub(crate) fn behind(rival: &'a Rival, folder: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let action = format!("crowd-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = |kind: &str| folder.join(format!("{action}.{kind}"));
        let mut crowd = Self {
            rival,
            log: path("log"),
            said: path("said"),
            action: action.clone(),
            stay: None,
            running: Vec::new(),
        };
        File::create(&crowd.log).expect("the folder takes a file");
        File::create(&crowd.said).expect("the folder takes a file");
        let fifo = path("fifo");
        make_fifo(&fifo);
        crowd.start(FIRST, fifo.to_str().expect("the path is UTF-8"));
        crowd.stay = Some(reader_came(&fifo));
        crowd
    }

    /// One more comes, whose command will stay for `hold`.
    pub(crate) fn join(&mut self, hold: Duration) {
        let name = name(self.running.len() - 1);
        self.start(&name, &hold.as_micros().to_string());
    }

    /// `count` come one after the other, at least `pace` apart whatever the machine does meanwhile.
    pub(crate) fn join_in_turn(&mut self, count: u32, pace: Duration, hold: Duration) {
        for _ in 0..count {
            let start = Instant::now();
            self.join(hold);
            thread::sleep(pace.saturating_sub(start.elapsed()));
        }
    }

    /// Returns when all of them wait.
    pub(crate) fn gathered(&self) {
        eventually("everybody waits", LOOKING, || {
            self.rival.waiting(&self.action) == self.running.len() - 1
        });
        thread::sleep(SETTLING);
    }

    /// The processes that wait.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().skip(1).map(Child::id)
    }

    /// Lets the holder go and returns when all have been served.
    pub(crate) fn let_go(mut self) -> Outcome {
        drop(self.stay.take());
        let mut failed = 0;
        for child in &mut self.running {
            failed += usize::from(!child.wait().expect("a child can be waited for").success());
        }
        self.running.clear();
        let said = fs::read_to_string(&self.said).expect("the file can be read");
        Outcome {
            marks: mark::read(&self.log),
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
        let command = mark::command(&self.log, name, hold);
        let child = self
            .rival
            .lock(&self.action, name, &command)
            .stderr(Stdio::from(said.expect("the file can be opened")))
            .spawn();
        self.running.push(child.expect("the program starts"));
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        // Only after a panic is there anything left to kill.
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Outcome {
    /// From the end of each command to the start of the next; none where they overlapped.
    pub(crate) fn gaps(&self) -> Vec<Option<Duration>> {
        let pairs = self.marks.windows(2);
        pairs
            .map(|pair| pair[1].start.checked_sub(pair[0].end))
            .collect()
    }

    /// The names of those who waited, in the order in which they were served.
    pub(crate) fn served(&self) -> Vec<String> {
        let names = self.marks.iter().map(|mark| mark.name.clone());
        names.filter(|name| name != FIRST).collect()
    }
}

/// The names that `count` contenders have, in order of arrival.
pub(crate) fn names(count: u32) -> Vec<String> {
    (0..count as usize).map(name).collect()
}

fn name(number: usize) -> String {
    format!("{number:04}")
}

fn is_notice(line: &str) -> bool {
    line.starts_with("dlock: ") && line.contains(" held by ")
}
