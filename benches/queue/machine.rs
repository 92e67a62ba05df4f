//! Describes the machine on which the benchmark ran: processor, kernel and servers, but not the host name and paths.
//! Also measures the CPU time and memory of a process.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, getrlimit, setrlimit};
use testkit::bench::etcd::Etcd;
use testkit::bench::host;
use testkit::bench::markdown::Page;

use crate::site::Site;

/// Raises the limit of open files to the maximum. Servers and clients inherit the limit.
pub(crate) fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // `Site::start` panics if the server accepts too few connections.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Writes the facts that are not measured.
pub(crate) fn facts(page: &mut Page, sites: &[Site], etcd: &Etcd) {
    let date = humantime::format_rfc3339_seconds(SystemTime::now());
    page.item(format_args!("date: {date}"));
    page.item(format_args!("processor: {}", host::processor()));
    page.item(format_args!("kernel: {}", host::kernel()));
    page.item(format_args!("dlock: {}", env!("CARGO_PKG_VERSION")));
    for site in sites {
        page.item(format_args!(
            "{}: {}, default durability, at most 1100 connections, TCP without TLS on the loopback interface",
            site.name(),
            site.version()
        ));
    }
    page.item(format_args!(
        "etcd: {}, default durability, TCP without TLS on the loopback interface",
        etcd.version()
    ));
}

/// Writes the load of the machine, which includes the load of the benchmark.
pub(crate) fn load(page: &mut Page) {
    let averages = host::load().map(|average| format!("{average:.2}"));
    page.section(
        "Load",
        &format!(
            "{} over 1, 5 and 15 minutes, at the end.",
            averages.join(" ")
        ),
    );
}

/// Returns the CPU time that all threads of a process have used.
pub(crate) fn cpu(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process exists");
    threads
        .map(|thread| {
            let path = thread.expect("/proc can be listed").path();
            // Unlike `stat`, this file contains nanoseconds. It cannot be read if the thread has ended.
            let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
            Duration::from_nanos(nanos.unwrap_or(0))
        })
        .sum()
}

/// Returns the proportional set size of a process in bytes. The size of a shared page is divided equally among the
/// processes that share it.
pub(crate) fn memory(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib: u64 = line
        .and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0);
    kib << 10
}
