//! The section `cost`: `dlock status` of one action beside etcdctl, and with many actions.

use std::process::Command;
use std::thread;

use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::{ACTION, Population};
use testkit::bench::sample::millis;
use testkit::bench::timing::{self, Record};
use testkit::bench::traffic::traffic;
use testkit::bench::{host, tied};
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::holder::Holder;
use testkit::servers::{Flavour, Server};

/// Number of actions in the small and in the large database. The same number of actions is held in both, with [`ACTION`].
const FEW: u32 = 100;
const MANY: u32 = 1_000_000;

/// Targets: the maximum ratio to the time of etcdctl, and the maximum ratio of the time with many actions to the time
/// with few actions.
const SHARE: f64 = 0.5;
const GROWTH: f64 = 1.5;

/// The compared runs. The target for many actions applies to `status`.
const RUNS: [&[&str]; 3] = [
    &["status"],
    &["status", ACTION],
    &["exec", "-a", "x", "--", "true"],
];

/// A server with a small and a large database, in which a process holds [`ACTION`] and another one waits.
struct Site {
    server: Server,
    databases: [Population; 2],
    _pairs: [(Holder, Running); 2],
}

impl Site {
    fn start(flavour: Flavour) -> Self {
        let server = Server::start(flavour, &[]);
        let databases = [FEW, MANY].map(|actions| Population::new(&server, actions, FEW, 0));
        let pairs = databases.each_ref().map(|population| {
            let holder = Holder::on(&population.database, &[]);
            let waiter = ["exec", "-a", ACTION, "--", "true"];
            let waiter = Dlock::on(&population.database, waiter).start();
            eventually("the waiter waits", || population.waiting() == 1);
            (holder, waiter)
        });
        Self {
            server,
            databases,
            _pairs: pairs,
        }
    }

    /// Returns the name of `dlock ARGUMENTS…` on this server.
    fn name(&self, arguments: &[&str]) -> String {
        let product = self.server.flavour().product();
        format!("`dlock {}`, {product}", arguments.join(" "))
    }
}

pub(crate) fn section(page: &mut Page, rounds: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Both servers are filled at the same time.
    let sites = thread::scope(|scope| {
        Flavour::ALL
            .map(|flavour| scope.spawn(move || Site::start(flavour)))
            .map(|start| start.join().expect("the server can be filled"))
    });
    let etcd = Etcd::start();
    let servers = sites.each_ref().map(|site| &site.server);
    host::facts(page, &servers, &etcd, folder.path());
    one(page, &sites, &etcd, rounds);
    many(page, &sites, rounds);
    requests(page, &sites);
}

fn one(page: &mut Page, sites: &[Site; 2], etcd: &Etcd, rounds: usize) {
    // The holder's command ends with this process.
    let pid = format!("--pid={}", std::process::id());
    let pair = [&["tail", &pid, "--follow", "/dev/null"][..], &["true"]];
    let mut pair = pair.map(|command| {
        let lock = tied(&etcd.lock(ACTION, command)).spawn();
        lock.expect("setpriv is installed")
    });
    eventually("the waiter waits", || etcd.queue(ACTION) == 2);
    let status = ["status", ACTION];
    let mut programs = vec![("`etcdctl get --prefix init/`".to_owned(), etcd.get(ACTION))];
    let ours = sites.iter();
    programs.extend(ours.map(|site| (site.name(&status), site.databases[0].dlock(&status))));
    let records = timing::run(programs, rounds);
    for lock in &mut pair {
        lock.kill().expect("the lock is held");
    }
    page.section(
        "One action",
        &format!(
            "Times from the fork of a process to its end. In each of {rounds} rounds, each program runs once. The lock has a \
             holder and a waiter. The ratio is calculated for each round, and the table shows the median (p10 to p90). \
             All programs use TCP without TLS on the loopback interface."
        ),
    );
    timing::table(page, &records, |name| {
        name.starts_with("`dlock").then_some(SHARE)
    });
}

fn many(page: &mut Page, sites: &[Site; 2], rounds: usize) {
    let programs = sites.iter().flat_map(|site| {
        let databases = site.databases.iter();
        let runs = databases.flat_map(|database| RUNS.map(|run| (run, database.dlock(run))));
        runs.map(|(run, program): (&[&str], Command)| (site.name(run), program))
    });
    let records = timing::run(programs.collect(), rounds);
    page.section(
        "A million actions",
        &format!(
            "A database with {FEW} actions, all of them held, compared with a database with {MANY} actions on the \
             same server, {FEW} of them held. The times are medians of {rounds} rounds in milliseconds. `exec` acquires a \
             different action, which is free."
        ),
    );
    let row = |(few, many): (&Record, &Record)| {
        let ratio = many.median().as_secs_f64() / few.median().as_secs_f64();
        let [low, middle, high] = many.ratios(few);
        vec![
            few.name.clone(),
            millis(few.median()),
            millis(many.median()),
            format!("{ratio:.2}"),
            format!("{middle:.2} ({low:.2} to {high:.2})"),
            match few.name.contains("status") {
                true => verdict(ratio <= GROWTH).to_owned(),
                false => "–".to_owned(),
            },
        ]
    };
    let servers = records.chunks(2 * RUNS.len());
    let pairs = servers.flat_map(|records| {
        let (few, many) = records.split_at(RUNS.len());
        few.iter().zip(many)
    });
    let rows: Vec<Vec<String>> = pairs.map(row).collect();
    let head = format!(
        "whole process | {FEW} | {MANY} | ratio of medians | ratio in each round | ≤ {GROWTH}"
    );
    page.table(&head, &rows);
}

/// Writes the numbers of packets for `dlock status` of one action and of all actions.
fn requests(page: &mut Page, sites: &[Site; 2]) {
    page.section(
        "Round trips",
        "The numbers of packets that the client sends. A proxy counts them.",
    );
    let runs = sites
        .iter()
        .flat_map(|site| [(site, RUNS[0]), (site, RUNS[1])]);
    let rows: Vec<Vec<String>> = runs
        .map(|(site, run)| {
            let traffic = traffic(site.server.port(), |port| {
                let mut command = site.databases[0].dlock(run);
                let url = site.databases[0].database.url_through(port);
                command.env("DLOCK_URL", url);
                command
            });
            vec![
                site.name(run),
                traffic.connections.to_string(),
                traffic.login.to_string(),
                traffic.requests.to_string(),
                traffic.quits.to_string(),
                verdict(traffic.requests <= 1).to_owned(),
            ]
        })
        .collect();
    let head = " | connections | login | requests after login | COM_QUIT | requests ≤ 1";
    page.table(head, &rows);
}
