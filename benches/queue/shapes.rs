//! Measures the time from the end of one command to the start of the next if the holders accept others beside them: shared
//! locks and slots. Compares dlock with kazoo and Apache Curator on ZooKeeper, and with `flock -s`.
//!
//! dlock and flock start a command. kazoo and Curator measure in the process of their contender, so their times do not
//! contain the start of a process.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use testkit::bench::fifo::{eventually, make_fifo, wait_for_reader};
use testkit::bench::markdown::Page;
use testkit::bench::sample::{millis, percentile};

use crate::bare_command;
use crate::site::Site;
use crate::timestamp_command::{self, Mark};
use crate::zookeeper::{Client, ZooKeeper};

/// Number of waiters behind a writer, and for the slots.
const CROWD: usize = 30;

/// Number of slots for the crowd.
const SLOTS: usize = 3;

/// Time for which a waiter holds the lock.
const HOLD: Duration = Duration::from_millis(20);

/// Time after the arrival of the last waiter. The head of the queue then waits on the server.
const SETTLED: Duration = Duration::from_millis(400);

/// A compared program.
enum Peer {
    Dlock(Rc<Site>),
    ZooKeeper(Rc<ZooKeeper>, Client),
    Flock,
}

/// Which other holders a contender accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Exclusive,
    Shared,
    Slots(usize),
}

/// A transition: the holders, and the contenders that wait for the end of the first holder.
struct Transition {
    name: &'static str,
    holders: &'static [Shape],
    waiters: (usize, Shape),
    rounds: usize,
}

const TRANSITIONS: [Transition; 6] = [
    Transition {
        name: "exclusive → exclusive",
        holders: &[Shape::Exclusive],
        waiters: (1, Shape::Exclusive),
        rounds: 20,
    },
    Transition {
        name: "exclusive → shared",
        holders: &[Shape::Exclusive],
        waiters: (1, Shape::Shared),
        rounds: 20,
    },
    Transition {
        name: "shared → exclusive",
        holders: &[Shape::Shared],
        waiters: (1, Shape::Exclusive),
        rounds: 20,
    },
    Transition {
        name: "one of two slots",
        holders: &[Shape::Slots(2), Shape::Slots(2)],
        waiters: (1, Shape::Slots(2)),
        rounds: 20,
    },
    Transition {
        name: "exclusive → 30 readers, the last one",
        holders: &[Shape::Exclusive],
        waiters: (CROWD, Shape::Shared),
        rounds: 5,
    },
    Transition {
        name: "3 slots, 30 waiters",
        holders: &[Shape::Slots(SLOTS)],
        waiters: (CROWD, Shape::Slots(SLOTS)),
        rounds: 5,
    },
];

pub(crate) fn section(page: &mut Page, sites: &[Rc<Site>], folder: &Path) {
    let dlock = sites.iter().map(|site| Peer::Dlock(Rc::clone(site)));
    let zookeeper = Rc::new(ZooKeeper::start());
    let clients = [Client::Kazoo, Client::Curator]
        .map(|client| Peer::ZooKeeper(Rc::clone(&zookeeper), client));
    let peers: Vec<Peer> = dlock.chain(clients).chain([Peer::Flock]).collect();
    page.section(
        "Shared locks and slots",
        &format!(
            "Times from the end of a command to the start of the next one that it was in the way of, in milliseconds: \
             p50 and p99. Behind a writer, {CROWD} readers start; with {SLOTS} slots, {CROWD} waiters hold a slot for {} \
             ms each. kazoo and Curator measure within their processes, which start no command. Each process with \
             Curator first acquires and releases a lock of its own, so that its JVM has loaded the classes.",
            HOLD.as_millis()
        ),
    );
    let mut gaps: Vec<Vec<Vec<Duration>>> = TRANSITIONS
        .iter()
        .map(|_| peers.iter().map(|_| Vec::new()).collect())
        .collect();
    let mut count = 0;
    for (transition, gaps) in TRANSITIONS.iter().zip(&mut gaps) {
        for round in 0..transition.rounds {
            for turn in 0..peers.len() {
                let index = (turn + round) % peers.len();
                if let Some(run) = Scene::new(&peers[index], folder, count).run(transition) {
                    gaps[index].extend(run);
                }
                count += 1;
            }
        }
    }
    let rows: Vec<Vec<String>> = TRANSITIONS
        .iter()
        .zip(&gaps)
        .map(|(transition, gaps)| {
            let cells = gaps.iter().map(|gaps| {
                if gaps.is_empty() {
                    return "–".to_owned();
                }
                let [p50, p99] = [50, 99].map(|part| millis(percentile(gaps, part)));
                format!("**{p50}** {p99}")
            });
            [transition.name.to_owned()]
                .into_iter()
                .chain(cells)
                .collect()
        })
        .collect();
    let head: Vec<String> = ["transition".to_owned()]
        .into_iter()
        .chain(peers.iter().map(Peer::name))
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    page.table(&head, &rows);
}

impl Peer {
    fn name(&self) -> String {
        match self {
            Self::Dlock(site) => format!("`dlock exec`, {}", site.name()),
            Self::ZooKeeper(_, Client::Kazoo) => "kazoo".to_owned(),
            Self::ZooKeeper(_, Client::Curator) => "Curator".to_owned(),
            Self::Flock => "`flock`".to_owned(),
        }
    }
}

/// The processes of one transition.
struct Scene<'a> {
    peer: &'a Peer,
    name: String,
    folder: &'a Path,
    running: Vec<Child>,
}

impl<'a> Scene<'a> {
    fn new(peer: &'a Peer, folder: &'a Path, number: usize) -> Self {
        Self {
            peer,
            name: format!("shape-{number}"),
            folder,
            running: Vec::new(),
        }
    }

    /// Returns the gaps. None if the program has no such transition.
    fn run(mut self, transition: &Transition) -> Option<Vec<Duration>> {
        let is_slots = transition
            .holders
            .iter()
            .any(|shape| matches!(shape, Shape::Slots(_)));
        if is_slots && matches!(self.peer, Peer::Flock) {
            return None;
        }
        let log = self.folder.join(format!("{}.log", self.name));
        File::create(&log).expect("a file can be created");
        // With several slots for a crowd, the holders fill all of them.
        let holders: Vec<Shape> = match (transition.waiters, transition.holders) {
            ((CROWD, Shape::Slots(slots)), [shape]) => vec![*shape; slots],
            (_, holders) => holders.to_vec(),
        };
        let mut fifos = Vec::new();
        for (number, shape) in holders.iter().enumerate() {
            let fifo = self.folder.join(format!("{}.{number}", self.name));
            make_fifo(&fifo);
            let path = fifo.to_str().expect("the path is UTF-8");
            self.spawn(*shape, &log, &format!("holder-{number}"), path);
            fifos.push(wait_for_reader(&fifo));
        }
        let (count, shape) = transition.waiters;
        for number in 0..count {
            let label = format!("waiter-{number}");
            self.spawn(shape, &log, &label, &HOLD.as_micros().to_string());
        }
        self.wait_until_queued(holders.len(), count);
        thread::sleep(SETTLED);
        // One holder is in the way, except for a crowd that needs all slots.
        let rest = match count {
            1 => fifos.split_off(1),
            _ => Vec::new(),
        };
        drop(fifos);
        let waiters: Vec<Child> = self.running.split_off(holders.len());
        for mut child in waiters {
            let status = child.wait().expect("a child can be waited for");
            assert!(status.success(), "{}: {status}", self.peer.name());
        }
        drop(rest);
        for child in &mut self.running {
            child.wait().expect("a child can be waited for");
        }
        Some(gaps(&timestamp_command::read(&log), transition))
    }

    fn spawn(&mut self, shape: Shape, log: &Path, label: &str, hold: &str) {
        let mut command = match self.peer {
            Peer::Dlock(site) => {
                let slots = match shape {
                    Shape::Slots(slots) => format!("--slots={slots}"),
                    Shape::Shared => "--shared".to_owned(),
                    Shape::Exclusive => "--slots=1".to_owned(),
                };
                let mut lock = site.exec(&[&self.name, &slots, "-q", "--holder", label, "--"]);
                lock.args(timestamp_command::command(log, label, hold));
                lock
            }
            Peer::ZooKeeper(server, client) => {
                let shape = match shape {
                    Shape::Slots(slots) => slots.to_string(),
                    Shape::Shared => "shared".to_owned(),
                    Shape::Exclusive => "exclusive".to_owned(),
                };
                let mut contender = server.contender(*client, &self.name, &shape);
                contender.args([self.ready(label).as_os_str(), log.as_os_str()]);
                contender.args([label, hold]);
                contender
            }
            Peer::Flock => {
                let mut lock: Command = bare_command("flock");
                if shape == Shape::Shared {
                    lock.arg("-s");
                }
                lock.arg(self.folder.join(&self.name));
                lock.args(timestamp_command::command(log, label, hold));
                lock
            }
        };
        let child = command.stderr(Stdio::inherit()).spawn();
        self.running.push(child.expect("the program starts"));
    }

    /// Returns the file that a contender on ZooKeeper creates when it is about to acquire the lock.
    fn ready(&self, label: &str) -> std::path::PathBuf {
        self.folder.join(format!("{}.{label}.ready", self.name))
    }

    fn wait_until_queued(&self, holders: usize, waiters: usize) {
        eventually(
            "all contenders wait",
            Duration::from_millis(20),
            || match self.peer {
                Peer::Dlock(site) => site.queued_names(&self.name).len() == waiters,
                Peer::ZooKeeper(..) => {
                    (0..waiters).all(|number| self.ready(&format!("waiter-{number}")).exists())
                }
                Peer::Flock => {
                    let locks = fs::read_to_string("/proc/locks").expect("/proc is mounted");
                    let waits = locks.lines().filter(|line| line.contains("-> FLOCK"));
                    waits.count() >= waiters || holders == 0
                }
            },
        );
    }
}

/// Returns the times between the ends and the starts in `marks`.
fn gaps(marks: &[Mark], transition: &Transition) -> Vec<Duration> {
    let is_holder = |mark: &&Mark| mark.name.starts_with("holder");
    let mut ends: Vec<Duration> = marks.iter().map(|mark| mark.end).collect();
    ends.sort();
    let waiters = marks.iter().filter(|mark| !is_holder(mark));
    let mut starts: Vec<Duration> = waiters.map(|mark| mark.start).collect();
    starts.sort();
    match transition.waiters {
        // Each end makes room for one start.
        (CROWD, Shape::Slots(_)) => (starts.iter().zip(&ends))
            .map(|(start, end)| start.saturating_sub(*end))
            .collect(),
        // The last reader starts when all have been granted the lock.
        (CROWD, _) => {
            let end = marks.iter().filter(is_holder).map(|mark| mark.end).max();
            let last = starts.last().zip(end);
            last.map(|(start, end)| start.saturating_sub(end))
                .into_iter()
                .collect()
        }
        _ => {
            let end = marks.iter().find(|mark| mark.name == "holder-0");
            let first = starts.first().zip(end);
            first
                .map(|(start, mark)| start.saturating_sub(mark.end))
                .into_iter()
                .collect()
        }
    }
}
