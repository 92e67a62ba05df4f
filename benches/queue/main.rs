//! `make bench` runs this benchmark. It measures the speed and the order of the queue with many waiters, and compares
//! dlock with `etcdctl lock` and `flock`.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes Markdown to stdout and to
//! `target/bench/queue.md`. The benchmark fails if a program fails, but not if a target is missed. Arguments select
//! sections: `cargo bench --bench queue -- handover holds shapes order waiting takeover death thousand`. Without arguments, all
//! of these run. The hand-over is measured in `ROUNDS` rounds (7 by default). The section `guard` runs only if it is selected, and
//! fails if dlock has become slow.
//!
//! - `timestamp_command` is the command under the lock. It is this program in another mode, and records when it ran.
//! - `holds` compares `dlock hold` with `etcdctl elect`, also with `followers` of the leader.
//! - `shapes` compares shared locks and slots with kazoo and Apache Curator on `zookeeper`, and with `flock`.
//! - `site`, `etcd` and `competitor` are the compared programs. `waiters` is a holder with its waiters.
//! - `guard` compares dlock with its `limits`.
//! - `handover`, `order`, `waiting`, `takeover`, `kill_latency` (section `death`) and `scale` (section `thousand`)
//!   measure and write the sections of the page.
//! - `fifo` blocks a command, `sample` computes percentiles, `machine` and `host` describe the machine, and `markdown`
//!   writes the page.

mod competitor;
mod followers;
mod guard;
mod handover;
mod holds;
mod kill_latency;
mod limits;
mod machine;
mod order;
mod scale;
mod shapes;
mod site;
mod takeover;
mod timestamp_command;
mod waiters;
mod waiting;
mod zookeeper;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::Page;
use testkit::bench::spawn::bare;
use testkit::servers::Flavour;

use self::competitor::Competitor;
use self::site::{Commits, Site, build_mutant};

/// The sections, in the order in which they run.
const SECTIONS: [&str; 8] = [
    "handover", "holds", "shapes", "order", "waiting", "takeover", "death", "thousand",
];

/// The section that runs only if it is selected.
const GUARD: &str = "guard";

/// Returns a command for `program`. All compared programs have the same environment. The kernel kills the process when
/// this process is killed, so no waiter outlives an interrupted benchmark.
fn bare_command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program.as_ref());
    bare(command)
}

fn main() {
    if timestamp_command::is_selected() {
        return timestamp_command::run();
    }
    // `cargo test --benches` also runs this program, but with an unoptimized dlock. The program then does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let Some(unknown) = chosen
        .iter()
        .find(|name| !SECTIONS.contains(&name.as_str()) && *name != GUARD)
    {
        panic!(
            "no section {unknown}; the sections are {}",
            SECTIONS.join(", ")
        );
    }
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|section| section == name);

    machine::raise_file_limit();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, Commits::Default));
    let etcd = Etcd::start(|program| bare_command(program));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("a folder can be created in the target folder");
    let mut page = Page::new("Speed and order of the queue", target.join("queue.md"));
    machine::facts(&mut page, &sites, &etcd);
    let dlock = sites.map(|site| Competitor::Dlock(Rc::new(site)));
    let etcd = Competitor::Etcd(etcd);
    let flock = Competitor::Flock(folder.join("flock"));

    if wanted("handover") {
        let rounds = std::env::var("ROUNDS").map_or(7, |rounds| {
            rounds.parse().expect("ROUNDS is a number of rounds")
        });
        build_mutant();
        let slow = [Commits::Delayed, Commits::SlowDisk]
            .into_iter()
            .flat_map(|commits| Flavour::ALL.map(|flavour| Rc::new(Site::start(flavour, commits))));
        let slow: Vec<Competitor> = slow
            .flat_map(|site| {
                [
                    Competitor::Dlock(Rc::clone(&site)),
                    Competitor::WithoutHandOff(site),
                ]
            })
            .collect();
        let [maria, mysql] = &dlock;
        let competitors: Vec<&Competitor> = [&etcd, maria, mysql, &flock]
            .into_iter()
            .chain(&slow)
            .collect();
        handover::section(&mut page, &competitors, rounds, folder);
        page.publish();
    }
    if wanted("holds") {
        holds::section(&mut page, &dlock, &etcd);
        page.publish();
    }
    if wanted("shapes") {
        let sites = dlock.each_ref().map(Competitor::shared_site);
        shapes::section(&mut page, &sites, folder);
        page.publish();
    }
    if wanted("order") || wanted("waiting") {
        // Both sections use the same waiters.
        let waits = wanted("waiting");
        order::section(&mut page, &dlock, &etcd, waits, folder);
        page.publish();
    }
    if wanted("takeover") {
        takeover::section(&mut page, dlock.each_ref().map(Competitor::site), folder);
        page.publish();
    }
    if wanted("death") {
        kill_latency::section(&mut page, dlock.each_ref().map(Competitor::site));
        page.publish();
    }
    if wanted("thousand") {
        scale::section(&mut page, &dlock, folder);
    }
    let is_within = !chosen.iter().any(|section| section == GUARD)
        || guard::section(&mut page, &dlock, &etcd, &flock, folder);
    machine::load(&mut page);
    page.publish();
    assert!(is_within, "dlock has become slow");
}
