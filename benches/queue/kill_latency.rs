//! Measures how long the last process of the command's process tree survives after dlock is killed or, if dlock
//! is frozen, after the deadline of its lease.
//!
//! All processes of the tree inherit standard output, and dlock and its monitor close their copies. The reader
//! therefore reaches the end of the pipe when the last process of the tree is dead. The holders run in batches, half of
//! them on each server.

use std::io::Read;
use std::process::{Child, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};

use crate::site::Site;
use crate::timestamp_command;

const REPETITIONS: usize = 200;

/// Number of holders that run concurrently. More holders would overload two processors.
const BATCH: usize = 10;

const TTL: Duration = Duration::from_secs(3);

/// Safety margin that dlock subtracts from [`TTL`] to get the deadline.
const MARGIN: Duration = Duration::from_millis(250);

const ALLOWED: Duration = Duration::from_millis(100);

/// A command with a child, a child in its own session, and an orphan in its own session. All processes ignore SIGTERM.
const TREE: &str = r#"
    trap "" TERM
    stay='trap "" TERM HUP; sleep 1000; sleep 1000'
    sh -c "$stay" &
    setsid sh -c "$stay" &
    (setsid sh -c "$stay" &)
    echo up
    sleep 1000; sleep 1000
"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Frozen,
}

pub(crate) fn section(page: &mut Page, sites: [&Site; 2]) {
    page.section(
        "Kill latency",
        &format!(
            "Times to the death of the last process of the command's process tree, in milliseconds. After a SIGKILL \
             of dlock, the time is measured from the signal. After a SIGSTOP of dlock, the time is measured from the \
             deadline of the lease. The process tree consists of a shell, a child, a child in its own session, and an \
             orphan, and all processes ignore SIGTERM. Each fault is repeated {REPETITIONS} times, {BATCH} at the same \
             time. The deadline is calculated from the record on the server, and is less than a millisecond later than \
             the deadline in dlock."
        ),
    );
    let mut rows = Vec::new();
    for (fault, name) in [
        (Fault::Killed, "SIGKILL of dlock"),
        (Fault::Frozen, "SIGSTOP of dlock"),
    ] {
        let mut lags = Vec::new();
        while lags.len() < REPETITIONS {
            let number = lags.len();
            let holders: Vec<Holder> = (number..number + BATCH)
                .map(|number| Holder::start(sites[number % 2], &format!("death-{name}-{number}")))
                .collect();
            lags.extend(inject(holders, fault));
        }
        let in_time = lags.iter().filter(|lag| **lag <= ALLOWED).count();
        let [median, maximum] = [50, 100].map(|part| percentile(&lags, part));
        rows.push(vec![
            name.to_owned(),
            millis(median),
            millis(maximum),
            format!("{in_time} of {REPETITIONS}"),
            verdict(in_time == REPETITIONS).to_owned(),
        ]);
    }
    page.table(
        &["fault", "median", "maximum", "at most 100", "target"],
        &rows,
    );
}

fn inject(holders: Vec<Holder>, fault: Fault) -> Vec<Duration> {
    let affected: Vec<_> = holders
        .into_iter()
        .map(|holder| (holder.inject(fault), holder))
        .collect();
    let lags = affected
        .into_iter()
        .map(|(due, holder)| holder.wait_for_death().saturating_sub(due));
    lags.collect()
}

/// A holder whose process tree runs.
struct Holder<'a> {
    site: &'a Site,
    action: String,
    dlock: Child,
    death: Option<JoinHandle<Duration>>,
}

impl<'a> Holder<'a> {
    fn start(site: &'a Site, action: &str) -> Self {
        let ttl = format!("{}s", TTL.as_secs());
        let mut exec = site.exec(&["-a", action, "--ttl", &ttl, "--", "sh", "-c", TREE]);
        let mut holder = exec.stdout(Stdio::piped()).spawn().expect("dlock starts");
        let mut stdout = holder.stdout.take().expect("standard output is a pipe");
        let mut ready = [0; 3];
        stdout
            .read_exact(&mut ready)
            .expect("the tree reports that it runs");
        Self {
            site,
            action: action.to_owned(),
            dlock: holder,
            death: Some(thread::spawn(move || end_of(stdout))),
        }
    }

    /// Kills or stops dlock. Returns the time from which the latency is measured: the time of the kill, or the deadline
    /// of the lease.
    fn inject(&self, fault: Fault) -> Duration {
        let pid = i32::try_from(self.dlock.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a process id is a positive number");
        match fault {
            Fault::Killed => {
                let now = timestamp_command::now();
                kill_process(pid, Signal::KILL).expect("the process exists");
                now
            }
            Fault::Frozen => {
                kill_process(pid, Signal::STOP).expect("the process exists");
                // A renewal in flight normally reaches the server during this sleep.
                thread::sleep(Duration::from_millis(20));
                let (age, now) = (
                    self.site.renewed_ago(&self.action),
                    timestamp_command::now(),
                );
                now + TTL.saturating_sub(MARGIN + age)
            }
        }
    }

    /// Waits for the death of the last process of the tree, and returns the time of the death.
    fn wait_for_death(mut self) -> Duration {
        let death = self.death.take().expect("the death is awaited once");
        death.join().expect("the reader does not panic")
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        let _ = self.dlock.kill();
        let _ = self.dlock.wait();
    }
}

fn end_of(mut stdout: ChildStdout) -> Duration {
    let read = stdout.read_to_end(&mut Vec::new());
    read.expect("standard output can be read");
    timestamp_command::now()
}
