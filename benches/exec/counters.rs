//! Measures the work of a server for one `dlock exec` on an existing action. The values come from the server's own
//! counters.
//!
//! Each value is the increase of a counter during one `exec`, minus the increase between two readings without an
//! `exec`, because reading the counters also increases them. The median of several such differences normally excludes
//! the server's background work. The main counters:
//! - Statements: the sum of `Com_…`. `Questions` would also count the end of the connection (`COM_QUIT`).
//! - Commits: `trx_rw_commits` of `InnoDB`, which counts the transactions that wrote. `Handler_commit` would also count
//!   each SELECT and, on MySQL, would count each transaction two more times for the binary log.

use std::collections::BTreeMap;
use std::process::Command;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::bench::timing::median;
use testkit::bench::traffic::{self, Traffic};

use crate::Site;

const SAMPLES: usize = 5;

/// The cost of one `exec` on the server.
pub(crate) struct ServerCost {
    pub(crate) server: &'static str,
    pub(crate) traffic: Traffic,
    pub(crate) connections: i64,
    pub(crate) statements: i64,
    /// Statements by kind, as text.
    pub(crate) kinds: String,
    pub(crate) commits: i64,
    /// Transactions in the binary log. 0 if the binary log is off.
    pub(crate) logged: i64,
    /// Calls of `fsync` and similar functions by `InnoDB`.
    pub(crate) syncs: i64,
    pub(crate) received: i64,
    pub(crate) sent: i64,
}

type Counts = BTreeMap<String, i64>;

/// Measures one `exec` over TCP on a server without other clients.
pub(crate) fn cost(site: &Site) -> ServerCost {
    let mut root = site.server.admin();
    root.query_drop("SET GLOBAL innodb_monitor_enable='trx_rw_commits'")
        .expect("root can enable the counter");
    let exec = ["-a", "x", "--", "true"];
    let samples: Vec<Counts> = (0..SAMPLES)
        .map(|_| {
            let before = read_counters(&mut root);
            let idle = read_counters(&mut root);
            succeed(&mut site.exec(&exec));
            increase(
                &increase(&before, &idle),
                &increase(&idle, &read_counters(&mut root)),
            )
        })
        .collect();
    let counts: Counts = samples[0]
        .keys()
        .map(|name| {
            (
                name.clone(),
                median(samples.iter().map(|sample| sample[name])),
            )
        })
        .collect();
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let kinds: Vec<(&str, i64)> = counts
        .iter()
        .filter(|(_, count)| **count != 0)
        .filter_map(|(name, count)| Some((name.strip_prefix("Com_")?, *count)))
        .collect();
    let traffic = traffic::traffic(site.server.port(), |port| {
        let mut command = site.exec(&exec);
        command.env("DLOCK_URL", site.database.url_through(port));
        command.env("DLOCK_SSL_MODE", "disabled");
        command
    });
    ServerCost {
        server: site.name(),
        traffic,
        connections: count("Connections"),
        statements: kinds.iter().map(|(_, count)| count).sum(),
        kinds: kinds
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect::<Vec<_>>()
            .join(", "),
        commits: count("trx_rw_commits"),
        logged: count("Binlog_cache_use"),
        syncs: count("Innodb_data_fsyncs"),
        received: count("Bytes_received"),
        sent: count("Bytes_sent"),
    }
}

fn succeed(command: &mut Command) {
    let status = command.status().expect("dlock can be started");
    assert!(status.success(), "dlock exec: {status}");
}

/// Returns all counters of the server.
fn read_counters(root: &mut Conn) -> Counts {
    let status = root.query::<(String, Option<String>), _>("SHOW GLOBAL STATUS");
    let metrics = "SELECT name, CAST(count AS CHAR) FROM information_schema.innodb_metrics \
                   WHERE name = 'trx_rw_commits'";
    let metrics = root.query::<(String, Option<String>), _>(metrics);
    [status, metrics]
        .into_iter()
        .flat_map(|rows| rows.expect("root can read the counters"))
        .filter_map(|(name, value)| Some((name, value?.parse().ok()?)))
        .collect()
}

fn increase(before: &Counts, after: &Counts) -> Counts {
    let difference = |(name, value): (&String, &i64)| {
        (name.clone(), value - before.get(name).copied().unwrap_or(0))
    };
    after.iter().map(difference).collect()
}
