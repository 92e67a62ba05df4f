//! Measures the time from the kill or freeze of a holder to the start of the next command. Each fault is injected
//! directly after a renewal, which is the worst case.
//!
//! All ttls, both faults and all repetitions run concurrently, each on its own action.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::bench::fifo::{eventually, make_fifo, wait_for_reader};
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{percentile, seconds};

use crate::site::Site;
use crate::timestamp_command;

const TTLS: [u64; 3] = [4, 10, 30];
const REPETITIONS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// dlock is killed, and the monitor kills the command.
    Killed,
    /// dlock is stopped, and the monitor kills the command at the deadline.
    Frozen,
}

impl Fault {
    const ALL: [Self; 2] = [Self::Killed, Self::Frozen];

    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
        }
    }

    /// Returns the maximum value of [`Measurement::lag`] that meets the target.
    const fn allowed(self) -> Duration {
        match self {
            Self::Killed => Duration::from_secs(1),
            Self::Frozen => Duration::from_secs(2),
        }
    }
}

/// A holder with a fault, and its waiter.
struct Measurement<'a> {
    site: &'a Site,
    action: String,
    ttl: u64,
    fault: Fault,
    log: PathBuf,
    holder: Child,
    next: Child,
    /// Write end of the fifo. The holder's command ends when the write end is closed.
    fifo_writer: Option<File>,
    /// Number of renewals that was first read after the waiter had joined the queue. None before the first read.
    renewals: Option<u64>,
    injected_at: Option<Duration>,
}

pub(crate) fn section(page: &mut Page, sites: [&Site; 2], folder: &Path) {
    let mut measurements = Vec::new();
    for site in sites {
        for ttl in TTLS {
            for fault in Fault::ALL {
                for repetition in 0..REPETITIONS {
                    let action = format!("{}-{ttl}-{}-{repetition}", site.name(), fault.name());
                    measurements.push(Measurement::start(site, action, ttl, fault, folder));
                }
            }
        }
    }
    let per_site = measurements.len() / sites.len();
    eventually("all waiters wait", Duration::from_millis(20), || {
        sites.iter().all(|site| site.waiting_sessions() == per_site)
    });
    eventually("all holders have a fault", Duration::from_millis(3), || {
        for site in sites {
            for (action, renewals) in site.renewals() {
                let measurement = measurements
                    .iter_mut()
                    .find(|measurement| measurement.action == action);
                if let Some(measurement) = measurement {
                    measurement.record_renewals(renewals);
                }
            }
        }
        measurements
            .iter()
            .all(|measurement| measurement.injected_at.is_some())
    });
    eventually(
        "all leases are taken over",
        Duration::from_millis(20),
        || measurements.iter_mut().all(Measurement::is_over),
    );
    write(page, sites, &mut measurements);
}

fn write(page: &mut Page, sites: [&Site; 2], measurements: &mut [Measurement]) {
    page.section(
        "Take-over",
        &format!(
            "Times from the SIGKILL or the SIGSTOP of the holder, directly after a renewal, to the start of the next \
             command, minus the ttl, in seconds. Each fault is repeated {REPETITIONS} times, \
             and all measurements run concurrently.",
        ),
    );
    let mut rows = Vec::new();
    for site in sites {
        for fault in Fault::ALL {
            for ttl in TTLS {
                let lags: Vec<f64> = measurements
                    .iter()
                    .filter(|measurement| {
                        measurement.site.name() == site.name()
                            && measurement.ttl == ttl
                            && measurement.fault == fault
                    })
                    .map(Measurement::lag)
                    .collect();
                let [minimum, median, maximum] = [0, 50, 100].map(|part| percentile(&lags, part));
                rows.push(vec![
                    format!("{}, {}", site.name(), fault.name()),
                    format!("{ttl} s"),
                    format!("{minimum:+.2}"),
                    format!("{median:+.2}"),
                    format!("{maximum:+.2}"),
                    format!("+{}", seconds(fault.allowed())),
                    verdict(maximum <= fault.allowed().as_secs_f64()).to_owned(),
                ]);
            }
        }
    }
    page.table(
        &[
            "holder", "ttl", "minimum", "median", "maximum", "allowed", "target",
        ],
        &rows,
    );
}

impl<'a> Measurement<'a> {
    fn start(site: &'a Site, action: String, ttl: u64, fault: Fault, folder: &Path) -> Self {
        let log = folder.join(format!("{action}.log"));
        let fifo = folder.join(format!("{action}.fifo"));
        File::create(&log).expect("a file can be created");
        make_fifo(&fifo);
        let spawn = |name: &str, hold: &str| {
            let ttl = format!("{ttl}s");
            let mut exec = site.exec(&["-a", &action, "--ttl", &ttl, "--holder", name, "--"]);
            exec.args(timestamp_command::command(&log, name, hold));
            exec.stderr(Stdio::null()).spawn().expect("dlock starts")
        };
        let holder = spawn("first", fifo.to_str().expect("the path is UTF-8"));
        let fifo_writer = Some(wait_for_reader(&fifo));
        let next = spawn("next", "0");
        Self {
            site,
            ttl,
            fault,
            holder,
            next,
            fifo_writer,
            renewals: None,
            injected_at: None,
            log,
            action,
        }
    }

    /// Records the number of renewals, and injects the fault if the lease has been renewed since the first call.
    fn record_renewals(&mut self, renewals: u64) {
        match (self.renewals, self.injected_at) {
            (None, _) => self.renewals = Some(renewals),
            (Some(before), None) if renewals > before => {
                self.injected_at = Some(timestamp_command::now());
                self.inject();
            }
            _ => {}
        }
    }

    fn inject(&self) {
        let pid = self.holder.id();
        match self.fault {
            Fault::Frozen => send(pid, Signal::STOP),
            Fault::Killed => send(pid, Signal::KILL),
        }
    }

    fn is_over(&mut self) -> bool {
        self.next
            .try_wait()
            .expect("a child can be waited for")
            .is_some()
    }

    /// Returns the time from the fault to the start of the next command, minus the ttl, in seconds.
    fn lag(&self) -> f64 {
        let marks = timestamp_command::read(&self.log);
        let next = marks.iter().find(|mark| mark.name == "next");
        let start = next.expect("the next command ran").start;
        let injected_at = self.injected_at.expect("the fault was injected");
        start.as_secs_f64()
            - injected_at.as_secs_f64()
            - Duration::from_secs(self.ttl).as_secs_f64()
    }
}

impl Drop for Measurement<'_> {
    fn drop(&mut self) {
        // A frozen holder's command ends when the fifo is closed.
        drop(self.fifo_writer.take());
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
