//! The ticks: the same line of a crontab on hosts whose clocks differ by seconds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::command::Stage;
use crate::dlock::{Dlock, Outcome, Running};
use crate::judge::{Host, Tick};
use crate::options::Options;
use crate::servers::Database;

pub(crate) const HOSTS: usize = 10;

/// How much the hosts' clocks differ, at most.
pub(crate) const SKEW: Duration = Duration::from_secs(3);

/// From tick to tick: a day on a smaller scale.
pub(crate) const PERIOD: Duration = Duration::from_secs(6);

/// For how long one success is enough: the hour of the recipe. Half-way between the skew and the period, because a host
/// that comes later than this runs twice, and one that comes this long before the last success's end not at all.
const ENOUGH: Duration = Duration::from_millis(4_500);

/// The job, at home in a folder that all hosts share. All of its tree keeps the witness locked.
const REPORT: &str = r#"#!/bin/sh
exec 9>>witness
flock -n 9 || { echo "not-alone $TICK $HOST" >> written; exit 99; }
sleep 0.2
echo "done $TICK $HOST" >> written
"#;

/// The hosts of one server.
struct Hosts<'a> {
    database: &'a Database,
    stage: Stage,
    line: String,
}

/// Runs all of them and tells of each as it is over.
pub(crate) fn ticks(database: &Database, options: &Options, mut tell: impl FnMut(u32, &Tick)) {
    let hosts = Hosts::at(database);
    let begin = Instant::now();
    let (sender, over) = mpsc::channel();
    thread::scope(|scope| {
        for number in 1..=options.ticks {
            let (hosts, sender) = (&hosts, sender.clone());
            // cron does not wait for the jobs of the tick before.
            scope.spawn(move || {
                let mut dice = Rng::with_seed(options.seed ^ u64::from(number));
                let tick = hosts.tick(number, begin + PERIOD * number, &mut dice);
                sender.send((number, tick)).expect("all ticks are heard");
            });
        }
        drop(sender);
        for (number, tick) in over {
            tell(number, &tick);
        }
    });
}

impl<'a> Hosts<'a> {
    fn at(database: &'a Database) -> Self {
        let stage = Stage::new();
        let job = stage.path("report.sh");
        fs::write(&job, REPORT).expect("the folder takes a file");
        fs::set_permissions(&job, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self {
            database,
            stage,
            line: recipe(),
        }
    }

    /// The tick at `at`, as each host sees it.
    fn tick(&self, number: u32, at: Instant, dice: &mut Rng) -> Tick {
        let mut delays: Vec<Duration> = (0..HOSTS).map(|_| SKEW.mul_f64(dice.f64())).collect();
        delays.sort_unstable();
        let hosts = delays.iter().zip(1..).map(|(delay, host)| {
            thread::sleep((at + *delay).saturating_duration_since(Instant::now()));
            let running = self.cron(number, host).start();
            (at.elapsed(), running)
        });
        let hosts: Vec<(Duration, Running)> = hosts.collect();
        let hosts = hosts.into_iter().map(|(started, running)| {
            let Outcome {
                status,
                stdout,
                stderr,
            } = running.wait();
            Host {
                started,
                status,
                mail: stdout + &stderr,
            }
        });
        let hosts = hosts.collect();
        let mut written = crate::replicas::written(&self.stage);
        written.retain(|line| line.split(' ').nth(1) == Some(&number.to_string()));
        Tick { written, hosts }
    }

    /// What cron starts on a host.
    fn cron(&self, tick: u32, host: usize) -> Dlock {
        let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
        let installed = dlock.parent().expect("it is in a folder");
        Dlock::of(Path::new("/usr/bin/env"), ["-C"])
            .arg(self.stage.path(""))
            .args(["/bin/sh", "-c", &self.line])
            .env("PATH", format!("{}:/usr/bin:/bin", installed.display()))
            .env("DLOCK_URL", self.database.url())
            .env("TICK", tick.to_string())
            .env("HOST", host.to_string())
    }
}

/// The command of the recipe's line, for days on a smaller scale.
fn recipe() -> String {
    let crontab = include_str!("../../examples/cron/dlock-report");
    let mut lines = crontab.lines();
    let line = lines.find(|line| line.ends_with(" -- ./report.sh"));
    let (_, command) = line
        .and_then(|line| line.split_once(" app "))
        .expect("the recipe has a line for the user app");
    let (before, after) = command
        .split_once(" --once-per 1h ")
        .expect("once an hour is enough");
    format!("{before} --once-per {}ms {after}", ENOUGH.as_millis())
}
