//! Runs the ticks. In a tick, hosts whose clocks differ by seconds execute the same crontab line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::Stage;
use testkit::servers::Database;

use crate::checks::{Host, Tick};
use crate::options::Options;

pub(crate) const HOSTS: usize = 10;

/// Maximum difference between the hosts' clocks.
pub(crate) const SKEW: Duration = Duration::from_secs(3);

/// Interval between two ticks. It represents a day on a smaller scale.
pub(crate) const PERIOD: Duration = Duration::from_secs(6);

/// Value of `--once-per`. It represents the hour of the recipe and is the mean of the skew and the period. If the value
/// were shorter than the skew, a late host would run the job again. If the value were longer than the period, the job
/// would not run at the next tick.
const ONCE_PER: Duration = Duration::from_millis(4_500);

/// The job, in a folder that all hosts share. Its process tree keeps the witness file locked.
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

/// Runs all ticks, and calls `report` with the number and the result of each tick when it has ended.
pub(crate) fn ticks(database: &Database, options: &Options, mut report: impl FnMut(u32, &Tick)) {
    let hosts = Hosts::at(database);
    let begin = Instant::now();
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for number in 1..=options.ticks {
            let (hosts, sender) = (&hosts, sender.clone());
            // cron does not wait for the jobs of the previous tick.
            scope.spawn(move || {
                let mut rng = Rng::with_seed(options.seed ^ u64::from(number));
                let tick = hosts.tick(number, begin + PERIOD * number, &mut rng);
                sender
                    .send((number, tick))
                    .expect("the receiver outlives all ticks");
            });
        }
        drop(sender);
        for (number, tick) in finished {
            report(number, &tick);
        }
    });
}

impl<'a> Hosts<'a> {
    fn at(database: &'a Database) -> Self {
        let stage = Stage::new();
        let job = stage.path("report.sh");
        fs::write(&job, REPORT).expect("a file can be created");
        fs::set_permissions(&job, fs::Permissions::from_mode(0o755))
            .expect("the permissions can be changed");
        Self {
            database,
            stage,
            line: recipe(),
        }
    }

    /// Runs tick `number`, which is due at `at`, on all hosts.
    fn tick(&self, number: u32, at: Instant, rng: &mut Rng) -> Tick {
        let mut delays: Vec<Duration> = (0..HOSTS).map(|_| SKEW.mul_f64(rng.f64())).collect();
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

    /// Returns the command that cron starts on a host.
    fn cron(&self, tick: u32, host: usize) -> Dlock {
        let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
        let installed = dlock.parent().expect("dlock is in a folder");
        Dlock::of(Path::new("/usr/bin/env"), ["-C"])
            .arg(self.stage.path(""))
            .args(["/bin/sh", "-c", &self.line])
            .env("PATH", format!("{}:/usr/bin:/bin", installed.display()))
            .env("DLOCK_URL", self.database.url())
            .env("TICK", tick.to_string())
            .env("HOST", host.to_string())
    }
}

/// Returns the command of the crontab line in the recipe. The value of `--once-per` is replaced by `ONCE_PER`.
fn recipe() -> String {
    let crontab = include_str!("../../examples/cron/dlock-report");
    let mut lines = crontab.lines();
    let line = lines.find(|line| line.ends_with(" -- ./report.sh"));
    let (_, command) = line
        .and_then(|line| line.split_once(" app "))
        .expect("the recipe has a line for the user `app`");
    let (before, after) = command
        .split_once(" --once-per 1h ")
        .expect("the recipe has --once-per 1h");
    format!("{before} --once-per {}ms {after}", ONCE_PER.as_millis())
}
