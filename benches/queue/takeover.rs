//! The time until the next command starts after the holder is killed or frozen right after a renewal, the worst time.
//!
//! All ttls, both faults and all repetitions run at the same time, each on its own action.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::fifo::{eventually, make_fifo, reader_came};
use crate::markdown::{Page, verdict};
use crate::sample::{percentile, seconds};
use crate::site::Site;
use crate::timestamp_command;

const TTLS: [u64; 3] = [4, 10, 30];
const REPETITIONS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// dlock is killed, and the monitor kills its command.
    Killed,
    /// dlock is stopped, and the monitor kills its command at the deadline.
    Frozen,
}

impl Fate {
    const ALL: [Self; 2] = [Self::Killed, Self::Frozen];

    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
        }
    }

    /// Returns the maximum time beyond the ttl until the next command starts.
    const fn allowed(self) -> Duration {
        match self {
            Self::Killed => Duration::from_secs(1),
            Self::Frozen => Duration::from_secs(2),
        }
    }
}

/// One holder, its waiter, and the fault of the holder.
struct Scene<'a> {
    site: &'a Site,
    action: String,
    ttl: u64,
    fate: Fate,
    log: PathBuf,
    holder: Child,
    next: Child,
    /// Write end of the fifo; the holder's command runs until it is closed.
    stay: Option<File>,
    /// Number of renewals when they were first read, after the waiter joined the queue. None before that.
    renewals: Option<u64>,
    struck: Option<Duration>,
}

pub(crate) fn section(page: &mut Page, sites: [&Site; 2], folder: &Path) {
    let mut scenes = Vec::new();
    for site in sites {
        for ttl in TTLS {
            for fate in Fate::ALL {
                for repetition in 0..REPETITIONS {
                    let action = format!("{}-{ttl}-{}-{repetition}", site.name(), fate.name());
                    scenes.push(Scene::set(site, action, ttl, fate, folder));
                }
            }
        }
    }
    let each = scenes.len() / sites.len();
    eventually("all wait", Duration::from_millis(20), || {
        sites.iter().all(|site| site.standing() == each)
    });
    eventually("all holders are struck", Duration::from_millis(3), || {
        for site in sites {
            for (action, renewals) in site.renewals() {
                let scene = scenes.iter_mut().find(|scene| scene.action == action);
                if let Some(scene) = scene {
                    scene.saw(renewals);
                }
            }
        }
        scenes.iter().all(|scene| scene.struck.is_some())
    });
    eventually("all are taken over", Duration::from_millis(20), || {
        scenes.iter_mut().all(Scene::is_over)
    });
    write(page, sites, &mut scenes);
}

fn write(page: &mut Page, sites: [&Site; 2], scenes: &mut [Scene]) {
    page.section(
        "Take-over",
        &format!(
            "From the SIGKILL or the SIGSTOP of the holder, as soon as a renewal was seen, \
              to the start of the next command; seconds beyond the ttl, {REPETITIONS} times each, all at once.",
        ),
    );
    let mut rows = Vec::new();
    for site in sites {
        for fate in Fate::ALL {
            for ttl in TTLS {
                let lags: Vec<f64> = scenes
                    .iter()
                    .filter(|scene| {
                        scene.site.name() == site.name() && scene.ttl == ttl && scene.fate == fate
                    })
                    .map(Scene::lag)
                    .collect();
                let [least, middle, most] = [0, 50, 100].map(|part| percentile(&lags, part));
                rows.push(vec![
                    format!("{}, {}", site.name(), fate.name()),
                    format!("{ttl} s"),
                    format!("{least:+.2}"),
                    format!("{middle:+.2}"),
                    format!("{most:+.2}"),
                    format!("+{}", seconds(fate.allowed())),
                    verdict(most <= fate.allowed().as_secs_f64()).to_owned(),
                ]);
            }
        }
    }
    page.table(
        &[
            "holder", "ttl", "least", "median", "most", "allowed", "target",
        ],
        &rows,
    );
}

impl<'a> Scene<'a> {
    fn set(site: &'a Site, action: String, ttl: u64, fate: Fate, folder: &Path) -> Self {
        let log = folder.join(format!("{action}.log"));
        let fifo = folder.join(format!("{action}.fifo"));
        File::create(&log).expect("a file can be created");
        make_fifo(&fifo);
        let start = |name: &str, hold: &str| {
            let ttl = format!("{ttl}s");
            let mut exec = site.exec(&["-a", &action, "--ttl", &ttl, "--holder", name, "--"]);
            exec.args(timestamp_command::command(&log, name, hold));
            exec.stderr(Stdio::null()).spawn().expect("dlock starts")
        };
        let holder = start("first", fifo.to_str().expect("the path is UTF-8"));
        let stay = Some(reader_came(&fifo));
        let next = start("next", "0");
        Self {
            site,
            ttl,
            fate,
            holder,
            next,
            stay,
            renewals: None,
            struck: None,
            log,
            action,
        }
    }

    /// Records the number of renewals, and strikes the holder if the lease has been renewed since the first call.
    fn saw(&mut self, renewals: u64) {
        match (self.renewals, self.struck) {
            (None, _) => self.renewals = Some(renewals),
            (Some(before), None) if renewals > before => {
                self.struck = Some(timestamp_command::now());
                self.strike();
            }
            _ => {}
        }
    }

    fn strike(&self) {
        let pid = self.holder.id();
        match self.fate {
            Fate::Frozen => send(pid, Signal::STOP),
            Fate::Killed => send(pid, Signal::KILL),
        }
    }

    fn is_over(&mut self) -> bool {
        self.next
            .try_wait()
            .expect("a child can be waited for")
            .is_some()
    }

    /// Returns the seconds from the strike to the start of the next command, less the ttl.
    fn lag(&self) -> f64 {
        let marks = timestamp_command::read(&self.log);
        let next = marks.iter().find(|mark| mark.name == "next");
        let start = next.expect("the next command ran").start;
        let struck = self.struck.expect("the holder was struck");
        start.as_secs_f64() - struck.as_secs_f64() - Duration::from_secs(self.ttl).as_secs_f64()
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // Lets the command of a frozen holder end.
        drop(self.stay.take());
        for child in [&mut self.holder, &mut self.next] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // The process may have ended already.
    let _ = kill_process(pid.expect("a process id is a positive number"), signal);
}
