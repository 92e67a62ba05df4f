//! Describes the machine on which a benchmark ran: processor, kernel, load, storage and servers. The host name and paths
//! are not included. Also measures the processor time and the memory of a process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use super::etcd::Etcd;
use super::markdown::Page;
use crate::servers::Server;

/// Writes the facts that are not measured. `folder` is the benchmark's own folder.
pub fn facts(page: &mut Page, servers: &[&Server], etcd: &Etcd, folder: &Path) {
    let date = humantime::format_rfc3339_seconds(SystemTime::now());
    let version = Command::new(crate::dlock()).arg("version").output();
    let version = String::from_utf8(version.expect("dlock runs").stdout).expect("text");
    page.item(format_args!("date: {date}"));
    page.item(format_args!("processor: {}", processor()));
    page.item(format_args!("kernel: {}", kernel()));
    let version = version.lines().next().unwrap_or_default();
    page.item(format_args!("dlock: {version}"));
    let folders = servers.iter().map(|server| server.dir());
    page.item(storage(folders.chain([etcd.folder(), folder])));
    for server in servers {
        page.item(settings(server));
    }
    let version = etcd.version();
    page.item(format_args!(
        "etcd: {version}, fsync at every commit (its default)"
    ));
}

fn settings(server: &Server) -> String {
    let (flush, sync, log, pool): (u8, u32, bool, u64) = server.value(
            "SELECT @@innodb_flush_log_at_trx_commit,@@sync_binlog,@@log_bin,@@innodb_buffer_pool_size>>20",
        );
    format!(
        "{}: {}, innodb_flush_log_at_trx_commit={flush}, binary log {}, sync_binlog={sync}, buffer pool of {pool} MiB",
        server.flavour().product(),
        server.version(),
        if log { "on" } else { "off" }
    )
}

/// Returns the types of the file systems of `folders`, with a warning if there are several.
fn storage<'a>(folders: impl Iterator<Item = &'a Path>) -> String {
    let mut devices: Vec<u64> = folders
        .map(|folder| folder.metadata().expect("the folder exists").dev())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    let kinds: Vec<String> = devices.iter().map(|device| kind(*device)).collect();
    let not = if kinds.len() == 1 { "" } else { "NOT " };
    format!(
        "storage: {not}one file system for all servers, {}",
        kinds.join(", ")
    )
}

fn kind(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let id = format!("{major}:{minor}");
    let mounts = read("/proc/self/mountinfo");
    let mut lines = mounts.lines();
    let mount = lines.find(|line| line.split(' ').nth(2) == Some(&id));
    // The type is the first word after the separator `-`.
    let kind = mount.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.unwrap_or("of unknown kind").to_owned()
}

/// Returns the model of the processor and the number of cores.
pub fn processor() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    // arm64 has no line with the model.
    let mut lines = cpuinfo.lines();
    let model = lines.find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores")
}

pub fn kernel() -> String {
    format!("Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

pub fn load() -> [f64; 3] {
    let text = read("/proc/loadavg");
    let mut words = text.split(' ').map(str::parse);
    [(); 3].map(|()| match words.next() {
        Some(Ok(average)) => average,
        _ => panic!("not load averages: {text}"),
    })
}

/// Writes the load of the machine, which includes the load of the benchmark.
pub fn write_load(page: &mut Page) {
    let [one, five, fifteen] = load();
    let text = format!("{one:.2} {five:.2} {fifteen:.2} over 1, 5 and 15 minutes, at the end.");
    page.section("Load", &text);
}

/// Returns the processor time that all threads of a process have used.
pub fn cpu(pid: u32) -> Duration {
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

/// Returns the memory of a process in bytes: the present one (`VmRSS`) or the largest one so far (`VmHWM`).
pub fn memory(pid: u32, field: &str) -> u64 {
    let status = read(&format!("/proc/{pid}/status"));
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let size = line.and_then(|line| line.trim_matches([':', ' ', '\t']).strip_suffix(" kB"));
    let kibibytes: u64 = size.and_then(|size| size.parse().ok()).expect("a size");
    kibibytes << 10
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
