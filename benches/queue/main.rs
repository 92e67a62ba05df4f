//! `make bench` runs this benchmark. It measures the speed and the order of the queue with many waiters, and compares
//! dlock with etcdctl, `flock` and clients of ZooKeeper.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes Markdown to stdout and to
//! `bench/queue.md` in the target folder. It fails if a program fails, but not if a target is missed. Arguments select
//! sections: `cargo bench --bench queue -- handover holds shapes order takeover thousand`. Without arguments, all of these
//! run. The section `guard` runs only if it is selected, and fails if dlock has become slow. `ROUNDS` multiplies the rounds
//! of `handover` and `guard`.
//!
//! - `timestamp_command` is the command under the lock. It is this program in another mode, and records when it ran.
//! - `competitor` contains the compared programs, with `zookeeper`. `crowd` has their holders and waiters.
//! - `guard` compares dlock with its limits, also for the section `handover`.
//! - `holds` compares `dlock hold` with `etcdctl elect`.
//! - `shapes` compares shared locks and slots.
//! - `order` measures the sections `order` and `thousand`, and `takeover` measures lost holders.

mod competitor;
mod crowd;
mod guard;
mod holds;
mod order;
mod shapes;
mod takeover;
mod timestamp_command;
mod zookeeper;

use rustix::process::{Resource, getrlimit, setrlimit};
use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::Page;
use testkit::bench::site::Site;
use testkit::bench::{host, rounds, sections};
use testkit::servers::Flavour;

const SECTIONS: [&str; 6] = [
    "handover", "holds", "shapes", "order", "takeover", "thousand",
];

fn main() {
    if timestamp_command::is_selected() {
        return timestamp_command::run();
    }
    let Some(sections) = sections(&SECTIONS, &["guard"]) else {
        return;
    };
    // A server with a low limit of open files accepts fewer connections.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a process may use its maximum");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    // A thousand contenders and the benchmark itself connect.
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, &["--max-connections=1100"]));
    let [maria, mysql] = &sites;
    let etcd = Etcd::start();
    let mut page = Page::new("Speed and order of the queue", "queue");
    host::facts(&mut page, &[&maria.server, &mysql.server], &etcd, folder);
    let mut is_within = true;
    for section in sections {
        match section {
            "handover" => {
                guard::try_once(&mut page, &sites, &etcd, folder, 2 * rounds(1));
            }
            "holds" => holds::section(&mut page, &sites, &etcd),
            "shapes" => shapes::section(&mut page, &sites, folder),
            "order" => order::few(&mut page, &sites, &etcd, folder),
            "takeover" => takeover::section(&mut page, &sites),
            "thousand" => order::thousand(&mut page, &sites, folder),
            _ => is_within = guard::section(&mut page, &sites, &etcd, folder, rounds(1)),
        }
        page.publish();
    }
    host::write_load(&mut page);
    page.publish();
    assert!(is_within, "dlock has become slow");
}
