//! `make bench` runs this benchmark. It compares the cost of `dlock status` with the cost of `etcdctl get --prefix`. It
//! also compares the cost in a database with a million actions with the cost in a database with a hundred actions.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`. It fills tables, which takes about a
//! minute and 1.5 GB, and writes Markdown to stdout and to `target/bench/status.md`. The benchmark fails if a program
//! fails, but not if a target is missed. Each program is timed `ROUNDS` times (100 by default).
//!
//! Arguments select sections: `cargo bench --bench status -- cost screen completion`. Without arguments, all sections
//! run. `cost` contains all comparisons above. `screen` measures the time until a user sees the first screen of
//! `dlock status` with 10 000 actions. `completion` measures the completion of a name in the shells. These two sections
//! need neither etcd nor the large tables.
//!
//! - `site` is a server with its databases, which `population` fills. `pair` is a holder and a waiter.
//! - `timing` measures the run times of whole processes. `etcd` starts the etcd server, and `servers` the other
//!   servers.
//! - `screen` measures and writes the section `screen`. `pty` opens a pseudo-terminal.
//! - `completion` measures and writes the section `completion`, with the `shell` and the `terminal` of the tests.
//! - `traffic` counts packets with the `proxy` of the tests. `fifo` blocks a command.
//! - `tables` formats the tables, and `markdown` writes the page. `sample` computes percentiles. `machine` and `host`
//!   describe the machine.

// This benchmark uses only some items of the modules of the tests.
mod completion;
mod pair;
mod screen;
// This benchmark uses only some items of `proxy`. The tests use the others.
mod site;
mod tables;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use testkit::bench::etcd::Etcd;
use testkit::bench::machine;
use testkit::bench::markdown::Page;
use testkit::bench::population::ACTION;
use testkit::bench::spawn::bare;
use testkit::bench::timing;
use testkit::bench::timing::Contestant;
use testkit::servers::Flavour;

use self::pair::Pair;
use self::site::Site;

/// Number of initial rounds whose times are discarded. These rounds create the rows and fill all caches, including the
/// account caches of the servers.
const WARM_UP: usize = 5;

/// The sections, in the order in which they run.
const SECTIONS: [&str; 3] = ["cost", "screen", "completion"];

/// Returns a command for `program`. All compared programs have the same environment.
fn bare_command(program: impl AsRef<Path>) -> Command {
    bare(Command::new(program.as_ref()))
}

fn main() {
    // `cargo test --benches` also runs this program, but with an unoptimized dlock. The program then does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(100, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let Some(unknown) = chosen
        .iter()
        .find(|name| !SECTIONS.contains(&name.as_str()))
    {
        panic!(
            "no section {unknown}; the sections are {}",
            SECTIONS.join(", ")
        );
    }
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|section| section == name);

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("a folder can be created in the target folder");
    let mut page = Page::new("What `dlock status` costs", target.join("status.md"));
    if wanted("cost") {
        cost(&mut page, rounds);
        page.publish();
    }
    if wanted("screen") {
        screen::section(&mut page, rounds);
        page.publish();
    }
    if wanted("completion") {
        completion::section(&mut page, rounds.min(completion::MAX_ROUNDS));
        page.publish();
    }
}

/// Measures and writes the sections that compare dlock with etcd, and few actions with many.
fn cost(page: &mut Page, rounds: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let sites = start_all();
    let etcd = Etcd::start(|program| bare_command(program));
    // The pairs are declared after the servers, so a panic ends the pairs before the servers.
    let pairs = pairs(&sites, &etcd, folder);
    sites.iter().for_each(Site::check);

    for (name, value) in facts(&sites, &etcd, folder) {
        page.item(format_args!("{name}: {value}"));
    }
    // These contestants are measured separately, because commits by other contestants would not slow them down equally.
    let read_contestants = timing::run(read_contestants(&sites, &etcd), WARM_UP, rounds);
    tables::one(page, &read_contestants);
    let contestants = sites.iter().flat_map(Site::contestants).collect();
    let records = timing::run(contestants, WARM_UP, rounds);
    tables::many(page, &records);
    let costs = sites.each_ref().map(Site::traffic);
    tables::requests(page, &sites, &costs);
    page.section("Load", &machine::load());
    drop(pairs);
}

/// Starts and fills both servers concurrently.
fn start_all() -> [Site; 2] {
    thread::scope(|scope| {
        Flavour::ALL
            .map(|flavour| scope.spawn(move || Site::start(flavour)))
            .map(|start| start.join().expect("the server can be filled"))
    })
}

/// Starts a holder and a waiter of [`ACTION`] on each server and in each database that is read.
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
    let folders = sites.iter().map(|site| site.server.dir());
    facts.push(machine::storage(folders.chain([etcd.folder(), folder])));
    for site in sites {
        let (name, text) = machine::settings(site.name(), &site.server);
        let pool = site.buffer_pool() >> 20;
        facts.push((name, format!("{text}, buffer pool of {pool} MiB")));
    }
    let version = etcd.version();
    let text = format!("{version}, fsync at every commit (its default)");
    facts.push(("etcd".to_owned(), text));
    facts
}

/// Returns the contestants that read one lock. The ratios are relative to the first contestant.
fn read_contestants(sites: &[Site], etcd: &Etcd) -> Vec<Contestant> {
    let peer = Contestant::program("`etcdctl get --prefix init/`", etcd.get(ACTION));
    let ours = sites.iter().map(Site::read_one);
    [peer].into_iter().chain(ours).collect()
}
