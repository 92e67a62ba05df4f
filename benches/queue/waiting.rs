//! Measures the cost of waiters for the server, according to the server's counters, and for the machine on which the
//! waiters run.

use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{mebibytes, millis};

use crate::machine;
use crate::site::Site;
use crate::waiters::Crowd;

const TIME: Duration = Duration::from_secs(30);

/// Maximum number of queries per waiter and second. In [`TIME`], a waiter that has just arrived prints one reminder, 30
/// seconds after its arrival. The read for a reminder takes one query, and the end of its connection may count as another
/// one. Later reminders follow after pauses that grow to 5 minutes.
const ALLOWED: f64 = 0.1;

/// A pattern for the names of the counters of all queries and of each kind of query.
const COUNTERS: &str =
    "^(Questions|Com_(select|update|insert|delete|set_option|do|show_status|show.*))$";

/// Number of processes whose memory is measured. Shared pages make the measurement slow.
const MEMORY_SAMPLES: usize = 10;

/// The cost of the waiters on one server.
pub(crate) struct ServerCost {
    server: &'static str,
    waiters: usize,
    time: Duration,
    questions: i64,
    renewals: u64,
    kinds: String,
    /// Sum of the CPU times of all waiters, and CPU time of the server.
    cpu: [Duration; 2],
    /// Mean memory of a waiter, in bytes.
    memory: u64,
}

/// Measures the waiters on both servers concurrently.
pub(crate) fn measure(crowds: &[(&Site, &Crowd); 2]) -> [ServerCost; 2] {
    let before = crowds.map(|(site, crowd)| read(site, crowd));
    thread::sleep(TIME);
    let after = crowds.map(|(site, crowd)| read(site, crowd));
    let mut index = 0;
    crowds.map(|(site, crowd)| {
        index += 1;
        cost(site, crowd, &before[index - 1], &after[index - 1])
    })
}

struct Reading {
    at: Instant,
    counters: Vec<(String, i64)>,
    renewals: u64,
    cpu: [Duration; 2],
}

/// Reads the counters, the renewals and the CPU times. Sends the server two queries: the first for the counters, and
/// the second for the renewals.
fn read(site: &Site, crowd: &Crowd) -> Reading {
    let cpu = [
        crowd.pids().map(machine::cpu).sum(),
        machine::cpu(site.pid()),
    ];
    Reading {
        at: Instant::now(),
        counters: site.counters(COUNTERS),
        renewals: renewals(site, &crowd.action),
        cpu,
    }
}

/// Number of the benchmark's own queries between two readings of the counters: one for the renewals, and one for the
/// counters.
const OWN: i64 = 2;

fn renewals(site: &Site, action: &str) -> u64 {
    let rows = site.renewals();
    let row = rows.iter().find(|(name, _)| name == action);
    row.expect("the action has a row").1
}

fn cost(site: &Site, crowd: &Crowd, before: &Reading, after: &Reading) -> ServerCost {
    let increases: Vec<(&str, i64)> = after
        .counters
        .iter()
        .zip(&before.counters)
        .map(|((name, after), (_, before))| (name.as_str(), after - before))
        .filter(|(_, increase)| *increase != 0)
        .collect();
    let count = |name: &str| {
        let found = increases.iter().find(|(other, _)| *other == name);
        found.map_or(0, |(_, increase)| *increase)
    };
    let kinds: Vec<String> = increases
        .iter()
        .filter_map(|(name, increase)| Some(format!("{increase} {}", name.strip_prefix("Com_")?)))
        .collect();
    let pids: Vec<u32> = crowd.pids().collect();
    let memory = pids
        .iter()
        .take(MEMORY_SAMPLES)
        .map(|pid| machine::memory(*pid));
    ServerCost {
        server: site.name(),
        waiters: pids.len(),
        time: after.at - before.at,
        questions: count("Questions"),
        renewals: after.renewals - before.renewals,
        kinds: kinds.join(", "),
        cpu: [0, 1].map(|index| after.cpu[index].saturating_sub(before.cpu[index])),
        memory: memory.sum::<u64>() / MEMORY_SAMPLES as u64,
    }
}

pub(crate) fn section(page: &mut Page, costs: &[ServerCost]) {
    page.section(
        "Waiting",
        &format!(
            "The increase of the server's `Questions` counter in {} s, while the waiters of the previous section \
             wait. The increase includes the reads for the waiters' reminders, the holder's renewals, and {OWN} queries \
             from the benchmark.",
            TIME.as_secs()
        ),
    );
    let rows: Vec<Vec<String>> = costs
        .iter()
        .map(|cost| {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let per_waiter_and_second =
                |count: i64| count as f64 / cost.waiters as f64 / cost.time.as_secs_f64();
            let others = cost.questions - OWN;
            vec![
                cost.server.to_owned(),
                cost.waiters.to_string(),
                cost.questions.to_string(),
                cost.kinds.clone(),
                cost.renewals.to_string(),
                format!("{:.4}", per_waiter_and_second(others)),
                millis(cost.cpu[1]),
                millis(cost.cpu[0]),
                mebibytes(cost.memory),
                verdict(per_waiter_and_second(others) < ALLOWED).to_owned(),
            ]
        })
        .collect();
    page.table(
        &[
            "server",
            "waiters",
            "Questions",
            "kinds",
            "renewals",
            "queries per waiter and second, including the holder",
            "server's CPU, ms",
            "waiters' CPU, ms",
            "memory per waiter, MiB",
            "< 0.1",
        ],
        &rows,
    );
}
