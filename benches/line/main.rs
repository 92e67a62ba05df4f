//! `make bench`: how the line moves when many wait, beside `etcdctl lock` and `flock` in the same run.
//!
//! Starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes a Markdown page to stdout and to
//! `target/bench/line.md`. It reports and never judges: only a run that fails ends it. Arguments choose sections:
//! `cargo bench --bench line -- handover order waiting takeover death thousand`; without any, all. `ROUNDS` (7) says how
//! often the hand-over is measured.
//!
//! - `mark` is the command under the lock, which is this program again; it writes down when it ran
//! - `site`, `etcd` and `rival` are what can be waited for; a `crowd` waits and is let go
//! - `handover`, `order`, `waiting`, `takeover`, `death` and `thousand` are the questions, one section of the page each
//! - `fifo` keeps a command where it is, `sample` makes numbers of measurements, `machine` and `host` say where all this
//!   was, `page` writes it down

#[path = "../machine/bare.rs"]
mod bare;
mod crowd;
mod death;
#[path = "../peers/etcd.rs"]
mod etcd;
#[path = "../machine/fifo.rs"]
mod fifo;
mod handover;
#[path = "../machine/host.rs"]
mod host;
mod machine;
mod mark;
mod order;
mod page;
mod rival;
mod sample;
#[path = "../../tests/it/servers.rs"]
mod servers;
mod site;
mod takeover;
mod thousand;
mod waiting;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use self::bare::bare;
use self::etcd::Etcd;
use self::page::Page;
use self::rival::Rival;
use self::servers::Flavour;
use self::site::{Commits, Site, build_twin};

/// The sections, in the order in which they run.
const SECTIONS: [&str; 6] = [
    "handover", "order", "waiting", "takeover", "death", "thousand",
];

/// `program` as all are started that are compared. Where possible the kernel kills it when this process is killed, so
/// that no crowd outlives a benchmark that was broken off.
fn alone(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program.as_ref());
    bare(command)
}

fn main() {
    if mark::is_asked_for() {
        return mark::run();
    }
    // `cargo test --benches` runs this too, with another build of dlock and with nobody to read the page.
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
    fs::create_dir_all(&target).expect("the target folder takes a folder");
    let mut page = Page::new("How the line moves", target.join("line.md"));
    machine::facts(&mut page, &sites, &etcd);
    let dlock = sites.map(|site| Rival::Dlock(Rc::new(site)));
    let etcd = Rival::Etcd(etcd);
    let flock = Rival::Flock(folder.join("flock"));

    if wanted("handover") {
        let rounds = std::env::var("ROUNDS").map_or(7, |rounds| {
            rounds.parse().expect("ROUNDS is a number of rounds")
        });
        build_twin();
        let slow = [Commits::Delayed, Commits::SlowDisk]
            .into_iter()
            .flat_map(|commits| Flavour::ALL.map(|flavour| Rc::new(Site::start(flavour, commits))));
        let slow: Vec<Rival> = slow
            .flat_map(|site| [Rival::Dlock(Rc::clone(&site)), Rival::WithoutHandOff(site)])
            .collect();
        let [maria, mysql] = &dlock;
        let rivals: Vec<&Rival> = [&etcd, maria, mysql, &flock]
            .into_iter()
            .chain(&slow)
            .collect();
        handover::section(&mut page, &rivals, rounds, folder);
        page.publish();
    }
    if wanted("order") || wanted("waiting") {
        // The same crowd answers both: it comes in order, waits, and is served.
        let waits = wanted("waiting");
        order::section(&mut page, &dlock, &etcd, waits, folder);
        page.publish();
    }
    if wanted("takeover") {
        takeover::section(&mut page, dlock.each_ref().map(Rival::site), folder);
        page.publish();
    }
    if wanted("death") {
        death::section(&mut page, dlock.each_ref().map(Rival::site));
        page.publish();
    }
    if wanted("thousand") {
        thousand::section(&mut page, &dlock, folder);
    }
    machine::load(&mut page);
    page.publish();
}
