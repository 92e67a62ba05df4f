//! The cost of waiters for the server, by its own counters, and for the machine on which they wait.

use std::thread;
use std::time::{Duration, Instant};

use crate::machine;
use crate::markdown::{Page, verdict};
use crate::sample::{mebibytes, millis};
use crate::site::Site;
use crate::waiters::Crowd;

const TIME: Duration = Duration::from_secs(30);

/// Maximum number of queries per waiter and second.
const ALLOWED: f64 = 0.02;

/// The counters of queries and of their kinds.
const COUNTERS: &str =
    "^(Questions|Com_(select|update|insert|delete|set_option|do|show_status|show.*))$";

/// Number of processes whose memory is read; shared pages make this slow.
const ASKED: usize = 10;

/// The cost of one crowd.
pub(crate) struct ServerCost {
    server: &'static str,
    waiters: usize,
    time: Duration,
    questions: i64,
    renewals: u64,
    kinds: String,
    /// CPU time of all waiters together, and of the server.
    cpu: [Duration; 2],
    /// Bytes per waiter.
    memory: u64,
}

/// Measures both crowds while they wait at the same time.
pub(crate) fn measure(crowds: &[(&Site, &Crowd); 2]) -> [ServerCost; 2] {
    let before = crowds.map(|(site, crowd)| look(site, crowd));
    thread::sleep(TIME);
    let after = crowds.map(|(site, crowd)| look(site, crowd));
    let mut index = 0;
    crowds.map(|(site, crowd)| {
        index += 1;
        cost(site, crowd, &before[index - 1], &after[index - 1])
    })
}

struct Look {
    at: Instant,
    counters: Vec<(String, i64)>,
    renewals: u64,
    cpu: [Duration; 2],
}

/// Sends the server two queries: the first reads the counters, and the second is not included in them.
fn look(site: &Site, crowd: &Crowd) -> Look {
    let cpu = [
        crowd.pids().map(machine::cpu).sum(),
        machine::cpu(site.pid()),
    ];
    Look {
        at: Instant::now(),
        counters: site.counters(COUNTERS),
        renewals: renewals(site, &crowd.action),
        cpu,
    }
}

/// Number of the benchmark's own queries between two readings of the counters: the rows, then the counters again.
const OWN: i64 = 2;

fn renewals(site: &Site, action: &str) -> u64 {
    let rows = site.renewals();
    let row = rows.iter().find(|(name, _)| name == action);
    row.expect("the action has a row").1
}

fn cost(site: &Site, crowd: &Crowd, before: &Look, after: &Look) -> ServerCost {
    let grown: Vec<(&str, i64)> = after
        .counters
        .iter()
        .zip(&before.counters)
        .map(|((name, after), (_, before))| (name.as_str(), after - before))
        .filter(|(_, growth)| *growth != 0)
        .collect();
    let count = |name: &str| {
        let found = grown.iter().find(|(other, _)| *other == name);
        found.map_or(0, |(_, growth)| *growth)
    };
    let kinds: Vec<String> = grown
        .iter()
        .filter_map(|(name, growth)| Some(format!("{growth} {}", name.strip_prefix("Com_")?)))
        .collect();
    let pids: Vec<u32> = crowd.pids().collect();
    let asked = pids.iter().take(ASKED).map(|pid| machine::memory(*pid));
    ServerCost {
        server: site.name(),
        waiters: pids.len(),
        time: after.at - before.at,
        questions: count("Questions"),
        renewals: after.renewals - before.renewals,
        kinds: kinds.join(", "),
        cpu: [0, 1].map(|who| after.cpu[who].saturating_sub(before.cpu[who])),
        memory: asked.sum::<u64>() / ASKED as u64,
    }
}

pub(crate) fn section(page: &mut Page, costs: &[ServerCost]) {
    page.section(
        "Waiting",
        &format!(
            "The same crowds, before they are let go, for {} s: how the server's `Questions` grew, with the renewals of \
             the holder and the {OWN} questions of the onlooker in it.",
            TIME.as_secs()
        ),
    );
    let rows: Vec<Vec<String>> = costs
        .iter()
        .map(|cost| {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let each = |count: i64| count as f64 / cost.waiters as f64 / cost.time.as_secs_f64();
            let others = cost.questions - OWN;
            vec![
                cost.server.to_owned(),
                cost.waiters.to_string(),
                cost.questions.to_string(),
                cost.kinds.clone(),
                cost.renewals.to_string(),
                format!("{:.4}", each(others)),
                millis(cost.cpu[1]),
                millis(cost.cpu[0]),
                mebibytes(cost.memory),
                verdict(each(others) < ALLOWED).to_owned(),
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
            "a waiter and second, holder included",
            "server's CPU, ms",
            "waiters' CPU, ms",
            "memory a waiter, MiB",
            "< 0.02",
        ],
        &rows,
    );
}
