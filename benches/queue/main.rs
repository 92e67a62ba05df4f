//! `make bench`: the speed and order of the queue with many waiters, compared with `etcdctl lock` and `flock` in the
//! same run.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes Markdown to stdout and to
//! `target/bench/line.md`. A missed target does not make it fail; a failed run of a program does. Arguments select
//! sections: `cargo bench --bench queue -- handover order waiting takeover death thousand`. Without arguments, all
//! sections run. `ROUNDS` (7) is the number of times that the hand-over is measured.
//!
//! - `timestamp_command` is the command under the lock, this program in another mode; it records when it ran
//! - `site`, `etcd` and `competitor` are the compared locks; `waiters` is a holder with its waiters
//! - `handover`, `order`, `waiting`, `takeover`, `death` and `thousand` are the sections of the page
//! - `fifo` blocks a command; `sample` computes percentiles; `machine` and `host` describe the machine; `page` writes
//!   the page

mod competitor;
#[path = "../peers/etcd.rs"]
mod etcd;
#[path = "../machine/fifo.rs"]
mod fifo;
mod handover;
#[path = "../machine/host.rs"]
mod host;
mod kill_latency;
mod machine;
mod markdown;
mod order;
mod sample;
mod scale;
#[path = "../../tests/it/servers.rs"]
mod servers;
mod site;
#[path = "../machine/spawn.rs"]
mod spawn;
mod takeover;
mod timestamp_command;
mod waiters;
mod waiting;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use self::competitor::Competitor;
use self::etcd::Etcd;
use self::markdown::Page;
use self::servers::Flavour;
use self::site::{Commits, Site, build_mutant};
use self::spawn::bare;

/// The sections, in the order in which they run.
const SECTIONS: [&str; 6] = [
    "handover", "order", "waiting", "takeover", "death", "thousand",
];

/// Returns a command for `program` with the environment that all compared programs get. The kernel kills it when this
/// process is killed, so that no crowd outlives an interrupted benchmark.
fn alone(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program.as_ref());
    bare(command)
}

fn main() {
    if timestamp_command::is_asked_for() {
        return timestamp_command::run();
    }
    // `cargo test --benches` also runs this program, with an unoptimized dlock. Do nothing then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let Some(unknown) = chosen
        .iter()
        .find(|name| !SECTIONS.contains(&name.as_str()))
    {
        panic!(
            "there is no section {unknown}, only {}",
            SECTIONS.join(", ")
        );
    }
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);

    machine::raise_file_limit();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, Commits::AsTheyAre));
    let etcd = Etcd::start();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("a folder can be created in the target folder");
    let mut page = Page::new("How the line moves", target.join("line.md"));
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
    if wanted("order") || wanted("waiting") {
        // Both sections use the same crowd: it arrives in order, waits, and is served.
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
    machine::load(&mut page);
    page.publish();
}
