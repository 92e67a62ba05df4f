//! Tests of `dlock serve`.

mod browser;
mod clients;
mod database;
mod interaction;
mod listening;
mod metrics;
mod security;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use testkit::browser::{Browser, Look};
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::holder::Holder;
use testkit::http::{Address, HttpResponse};
use testkit::servers::{Database, Flavour, shared};

/// A running `dlock serve`.
pub(crate) struct Page {
    running: Running,
    address: Address,
}

impl Page {
    /// Serves the locks of `database` on a free port.
    #[track_caller]
    pub(crate) fn on(database: &Database, options: &[&str]) -> Self {
        Self::start(Dlock::on(database, ["serve", "--listen=127.0.0.1:0"]).args(options))
    }

    /// Starts `dlock`, which serves the page on a TCP address or a Unix socket.
    #[track_caller]
    fn start(dlock: Dlock) -> Self {
        let running = dlock.start_until("listening on ");
        let printed = running.stderr_so_far();
        let (_, address) = printed.split_once("listening on ").expect("a line");
        let address = address.lines().next().expect("an address");
        let address = if let Some(path) = address.strip_prefix("unix:") {
            Address::Unix(path.into())
        } else {
            let address = address.trim_start_matches("http://").trim_end_matches('/');
            Address::Tcp(address.parse().expect("an address"))
        };
        Self { running, address }
    }

    #[track_caller]
    fn view(&self, path: &str) -> Browser {
        let browser = Browser::start(Look::WIDE);
        browser.open(&format!("{}{path}", self.address.url()));
        browser
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.address.request("GET", path, &["Host: localhost"])
    }

    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{response:#?}");
        serde_json::from_str(&response.body).expect("the body is JSON")
    }

    /// Returns the number of open sockets of the server.
    fn sockets(&self) -> usize {
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
    fn becomes(&self, path: &str, status: u16) {
        eventually(&format!("the status of {path} is {status}"), || {
            self.get(path).status == status
        });
    }

    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        self.running.wait_after("TERM")
    }
}

/// Creates a database with the free action `init`, whose only run has exited with 3.
#[track_caller]
fn database(flavour: Flavour) -> Database {
    let database = shared(flavour).database("serve");
    assert_eq!(Holder::on(&database, &[]).end().status, Some(3));
    database
}

#[track_caller]
fn create_actions(database: &Database, prefix: &str, count: u32) {
    let rows: Vec<_> = (0..count)
        .map(|number| format!("('{prefix}{number}')"))
        .collect();
    let rows = rows.join(",");
    database.run(format!("INSERT INTO dlock_lock (action) VALUES {rows}"));
}

/// Creates 300 actions. The holder of `tenant-7` is frozen or cut off, and the other actions are free.
#[track_caller]
fn create_tenants(database: &Database) {
    create_actions(database, "tenant-", 300);
    database.run("UPDATE dlock_lock SET owner_id=REPEAT('x',16),holder='billing-7',host='billing-7.example',pid=4711,\
         user='deploy',note='release 42',command='./close-books.sh',ttl_us=600000000,token=1795388683874802,\
         renewals=6,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 25 MINUTE,\
         renewed_at=UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,expires_at=UTC_TIMESTAMP(6)+INTERVAL 320 SECOND \
         WHERE action='tenant-7'");
}
