//! Where the numbers come from: processor, kernel, storage, servers. No name and no path of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use mysql::prelude::Queryable;

use crate::Site;
use crate::etcd::Etcd;
use crate::host;

/// Name and value of each fact that is known before anything runs.
pub(crate) fn facts() -> Vec<(String, String)> {
    [
        (
            "date",
            humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ),
        ("processor", host::processor()),
        ("kernel", host::kernel()),
        ("dlock", env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// How busy the machine is: the load averages.
pub(crate) fn load() -> String {
    let averages = host::load().map(|average| format!("{average:.2}"));
    format!(
        "{} over 1, 5 and 15 minutes, at the end",
        averages.join(" ")
    )
}

/// Version and durability of a server: its name and a line of text.
pub(crate) fn settings(site: &Site) -> (String, String) {
    let (flush, sync, log): (u8, u32, bool) = site
        .server
        .admin()
        .query_first("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin")
        .expect("root may look")
        .expect("a row");
    let log = if log { "on" } else { "off" };
    let text = format!(
        "{}, innodb_flush_log_at_trx_commit={flush}, binary log {log}, sync_binlog={sync}",
        site.server.version()
    );
    (site.name().to_owned(), text)
}

/// Whether all servers, and the folder of this process, write to the same file system, and of which kind it is.
pub(crate) fn storage(sites: &[Site], etcd: &Etcd, own: &Path) -> (String, String) {
    let folders = sites.iter().map(|site| site.server.dir());
    let mut devices: Vec<u64> = folders
        .chain([etcd.folder(), own])
        .map(|folder| folder.metadata().expect("the folder is there").dev())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    let kinds: Vec<String> = devices.iter().map(|device| kind(*device)).collect();
    let text = match kinds.as_slice() {
        [one] => format!("one file system for all servers, {one}"),
        several => format!("NOT one file system for all: {}", several.join(", ")),
    };
    ("storage".to_owned(), text)
}

fn kind(device: u64) -> String {
    let id = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(&id));
    // The kind is the first word after the lone dash.
    let kind = mount.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.unwrap_or("of unknown kind").to_owned()
}
