//! `make bench`: what `dlock status` costs, beside `etcdctl get --prefix`, and with a million actions beside a hundred.
//!
//! Starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, fills tables, which takes about a minute and 1.5 GB,
//! and writes a Markdown page to stdout and to `target/bench/status.md`. It reports and never judges: only a run that
//! fails ends it. `ROUNDS` (100) says how often each program is timed.
//!
//! - `site` is a server with its tables, which `population` fills; `pair` is a holder and one who waits for it
//! - `race` times whole processes against each other, `etcd` starts the one server that `servers` does not know
//! - `traffic` counts packets on their way, by the tests' `proxy`
//! - `verdicts` makes tables of all that, `sample` numbers of measurements, `machine` and `host` say where all this
//!   was, `page` writes it down; `fifo` keeps a command where it is

#[path = "../machine/bare.rs"]
mod bare;
#[path = "../peers/etcd.rs"]
mod etcd;
#[path = "../machine/fifo.rs"]
mod fifo;
#[path = "../machine/host.rs"]
mod host;
#[path = "../exec/machine.rs"]
mod machine;
#[path = "../line/page.rs"]
mod page;
mod pair;
mod population;
// The tests use the rest of it.
#[path = "../../tests/it/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "the bench of exec uses the rest of it")]
#[path = "../exec/race.rs"]
mod race;
#[allow(dead_code, reason = "the other benches use the rest of it")]
#[path = "../line/sample.rs"]
mod sample;
#[path = "../../tests/it/servers.rs"]
mod servers;
mod site;
#[allow(dead_code, reason = "the bench of exec uses the rest of it")]
#[path = "../exec/traffic.rs"]
mod traffic;
mod verdicts;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use self::bare::bare;
use self::etcd::Etcd;
use self::page::Page;
use self::pair::Pair;
use self::race::Contestant;
use self::servers::Flavour;
use self::site::Site;

/// Rounds that are not counted: they create the rows and fill the caches, those of the servers' accounts too.
const WARM_UP: usize = 5;

/// The action that somebody holds and somebody else waits for.
const ACTION: &str = "init";

/// `program` as all are started that are compared.
fn alone(program: impl AsRef<Path>) -> Command {
    bare(Command::new(program.as_ref()))
}

fn main() {
    // `cargo test --benches` runs this too, with another build of dlock and with nobody to read the page.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(100, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let sites = start_all();
    let etcd = Etcd::start();
    // Ended before what they run on.
    let pairs = pairs(&sites, &etcd, folder);
    sites.iter().for_each(Site::check);

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("the target folder takes a folder");
    let mut page = Page::new("What `dlock status` costs", target.join("status.md"));
    for (name, value) in facts(&sites, &etcd, folder) {
        page.item(format_args!("{name}: {value}"));
    }
    let records = race::run(contestants(&sites, &etcd), WARM_UP, rounds);
    verdicts::times(&mut page, &sites, &records);
    let bills = sites.each_ref().map(Site::traffic);
    verdicts::requests(&mut page, &sites, &bills);
    page.section("Load", &machine::load());
    page.publish();
    drop(pairs);
}

/// The servers, filled side by side.
fn start_all() -> [Site; 2] {
    thread::scope(|scope| {
        Flavour::ALL
            .map(|flavour| scope.spawn(move || Site::start(flavour)))
            .map(|start| start.join().expect("the server takes the rows"))
    })
}

/// A holder and a waiter of [`ACTION`] wherever it is looked at.
fn pairs(sites: &[Site], etcd: &Etcd, folder: &Path) -> Vec<Pair> {
    let waits = || etcd.queue(ACTION) == 2;
    let peer = Pair::start(
        |command| etcd.lock(ACTION, command),
        waits,
        &folder.join("etcd"),
    );
    let ours = sites.iter().flat_map(|site| site.pairs(folder));
    [peer].into_iter().chain(ours).collect()
}

fn facts(sites: &[Site], etcd: &Etcd, folder: &Path) -> Vec<(String, String)> {
    let mut facts = machine::facts();
    facts.push(machine::storage(sites, etcd, folder));
    for site in sites {
        let (name, text) = machine::settings(site);
        let pool = site.buffer_pool() >> 20;
        facts.push((name, format!("{text}, buffer pool of {pool} MiB")));
    }
    let version = etcd.version();
    let text = format!("{version}, fsync at every commit (its default)");
    facts.push(("etcd".to_owned(), text));
    facts
}

/// Who is timed: etcdctl, and then as many of each site as [`site::Times`] has.
fn contestants(sites: &[Site], etcd: &Etcd) -> Vec<Contestant> {
    let peer = Contestant::program(verdicts::PEER, etcd.look(ACTION));
    let ours = sites.iter().flat_map(Site::contestants);
    [peer].into_iter().chain(ours).collect()
}
