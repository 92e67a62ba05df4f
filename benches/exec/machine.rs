//! Describes the machine on which the benchmark ran: processor, kernel, storage and servers. The host name and paths
//! are not included.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use mysql::prelude::Queryable;

use crate::Site;
use crate::etcd::Etcd;
use crate::host;

/// Returns the name and the value of each fact that does not depend on the servers.
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

/// Returns the load averages of the machine as text.
pub(crate) fn load() -> String {
    let averages = host::load().map(|average| format!("{average:.2}"));
    format!(
        "{} over 1, 5 and 15 minutes, at the end",
        averages.join(" ")
    )
}

/// Returns the name of a server, and a text with its version and durability settings.
pub(crate) fn settings(site: &Site) -> (String, String) {
    let (flush, sync, log): (u8, u32, bool) = site
        .server
        .admin()
        .query_first("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin")
        .expect("root can read the settings")
        .expect("a row");
    let log = if log { "on" } else { "off" };
    let text = format!(
        "{}, innodb_flush_log_at_trx_commit={flush}, binary log {log}, sync_binlog={sync}",
        site.server.version()
    );
    (site.name().to_owned(), text)
}

/// Returns the name and the value of a fact about storage: the type of the file system of all servers and of the folder
/// `own`. If they use different file systems, the value contains a warning and all types.
pub(crate) fn storage(sites: &[Site], etcd: &Etcd, own: &Path) -> (String, String) {
    let folders = sites.iter().map(|site| site.server.dir());
    let mut devices: Vec<u64> = folders
        .chain([etcd.folder(), own])
        .map(|folder| folder.metadata().expect("the folder exists").dev())
        .collect();
    devices.sort_unstable();
    devices.dedup();
    let kinds: Vec<String> = devices.iter().map(|device| kind(*device)).collect();
    let text = match kinds.as_slice() {
        [kind] => format!("one file system for all servers, {kind}"),
        several => format!(
            "NOT one file system for all servers: {}",
            several.join(", ")
        ),
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
    // The type is the first word after the separator `-`.
    let kind = mount.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.unwrap_or("of unknown kind").to_owned()
}
