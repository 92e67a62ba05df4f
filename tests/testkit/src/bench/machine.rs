//! Describes the machine on which the benchmark ran: processor, kernel, storage and servers. The host name and paths
//! are not included.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use mysql::prelude::Queryable;

use super::host;
use crate::servers::Server;

/// Returns the name and the value of each fact that does not depend on the servers.
pub fn facts() -> Vec<(String, String)> {
    [
        (
            "date",
            humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ),
        ("processor", host::processor()),
        ("kernel", host::kernel()),
        ("dlock", version()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn version() -> String {
    let version = Command::new(crate::dlock()).arg("version").output();
    let version = version.expect("dlock runs").stdout;
    let version = String::from_utf8_lossy(&version);
    version.lines().next().unwrap_or_default().to_owned()
}

/// Returns the load averages of the machine as text.
pub fn load() -> String {
    let averages = host::load().map(|average| format!("{average:.2}"));
    format!(
        "{} over 1, 5 and 15 minutes, at the end",
        averages.join(" ")
    )
}

/// Returns the name of a server, and a text with its version and durability settings.
pub fn settings(name: &str, server: &Server) -> (String, String) {
    let (flush, sync, log): (u8, u32, bool) = server
        .admin()
        .query_first("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin")
        .expect("root can read the settings")
        .expect("a row");
    let log = if log { "on" } else { "off" };
    let text = format!(
        "{}, innodb_flush_log_at_trx_commit={flush}, binary log {log}, sync_binlog={sync}",
        server.version()
    );
    (name.to_owned(), text)
}

/// Returns the name and the value of a fact about storage: the type of the file system of `folders`, which are those of
/// all servers and the benchmark's own one. If they use different file systems, the value contains a warning and all types.
pub fn storage<'a>(folders: impl IntoIterator<Item = &'a Path>) -> (String, String) {
    let mut devices: Vec<u64> = folders
        .into_iter()
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
