//! Tests of `dlock serve`.

mod browser;
mod clients;
mod database;
mod interaction;
mod listening;
mod metrics;
mod security;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::http::{Address, HttpResponse};
use testkit::servers::Database;

/// A running `dlock serve`.
pub(crate) struct Page {
    pub(crate) running: Running,
    pub(crate) address: Address,
}

impl Page {
    /// Serves the locks of `database` on a free port.
    #[track_caller]
    pub(crate) fn on(database: &Database, options: &[&str]) -> Self {
        Self::start(Dlock::on(database, ["serve", "--listen", "127.0.0.1:0"]).args(options))
    }

    /// Starts `dlock`, which serves the page on a TCP address.
    #[track_caller]
    pub(crate) fn start(dlock: Dlock) -> Self {
        let running = dlock.start();
        running.wait_for_output("listening on http://");
        let printed = running.stderr_so_far();
        let address = printed
            .split_once("listening on http://")
            .and_then(|(_, rest)| rest.split_once('/'))
            .and_then(|(address, _)| address.parse().ok())
            .expect("the line contains an address");
        Self {
            running,
            address: Address::Tcp(address),
        }
    }

    /// Starts `dlock`, which serves the page on the Unix socket `path`.
    #[track_caller]
    pub(crate) fn on_socket(database: &Database, path: &Path) -> Self {
        let listen = format!("unix:{}", path.display());
        let running = Dlock::on(database, ["serve", "--listen", &listen]).start();
        running.wait_for_output("listening on unix:");
        Self {
            running,
            address: Address::Unix(path.to_owned()),
        }
    }

    /// Sends a GET request and returns the response.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.address.request("GET", path, &["Host: localhost"])
    }

    /// Returns the JSON document at `path`.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> serde_json::Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{response:#?}");
        serde_json::from_str(&response.body).expect("the body is JSON")
    }

    /// Returns the number of open sockets of the server.
    pub(crate) fn sockets(&self) -> usize {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.running.pid()));
        let links = folder
            .expect("dlock runs")
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        // Two descriptors may belong to one socket.
        let links: BTreeSet<_> = links.collect();
        let is_socket = |link: &&PathBuf| link.to_string_lossy().starts_with("socket:");
        links.iter().filter(is_socket).count()
    }

    /// Waits until the response for `path` has this status.
    #[track_caller]
    pub(crate) fn becomes(&self, path: &str, status: u16) {
        eventually(&format!("the status of {path} is {status}"), || {
            self.get(path).status == status
        });
    }

    /// Ends `dlock serve`.
    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        self.running.signal("TERM");
        self.running.wait()
    }
}
