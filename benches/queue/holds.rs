//! Measures `dlock hold` beside `etcdctl elect`: the time from the start of a contender to its grant, and from the end of a
//! holder to the next grant, with one waiter and with many, and until followers print it. Also measures
//! what followers cost a server of dlock while nothing changes.
//!
//! A program that uses `dlock hold` releases the lock by the end of stdin. `etcdctl elect` resigns when it gets SIGTERM.
//! Threads of this program read what the contenders print, and time each line.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};
use testkit::bench::site::Site;
use testkit::bench::timing::in_turn;
use testkit::bench::{dlock, host, tied};
use testkit::cli_runner::eventually;

use crate::competitor::queued;
use crate::crowd::SETTLED;

/// Number of rounds with one waiter, and number of grants that they measure.
const ROUNDS: usize = 40;

/// Number of the many waiters, and of the rounds with them. Each waiter is measured.
const CROWD: usize = 30;
const CROWD_ROUNDS: usize = 3;

/// Time for which each contender holds the lock. It finishes its set-up within this time.
const HOLD: Duration = Duration::from_millis(20);

/// Number of followers of a change, and of the followers that wait.
const FOLLOWERS: usize = 10;
const IDLE_FOLLOWERS: usize = 100;

/// Time over which the cost is measured.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Largest part of a core that waiting followers may cost a server.
const IDLE_TARGET: f64 = 0.01;

/// Maximum time until an expected line is printed.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy)]
enum Peer<'a> {
    Dlock(&'a Site),
    Etcd(&'a Etcd),
}

/// A time that all peers have: its name, a round of a peer on a lock that no other round uses, the number of rounds, and the
/// largest ratio to etcd on MariaDB and on MySQL.
type Measure = (
    &'static str,
    fn(Peer, &str) -> Vec<Duration>,
    usize,
    [f64; 2],
);

const MEASURES: [Measure; 4] = [
    ("start to granted", start_to_granted, ROUNDS, [0.6, 0.6]),
    (
        "end of the holder to the next one granted, 1 waiter",
        |peer, lock| end_to_granted(peer, lock, 1),
        ROUNDS,
        [0.9, 1.0],
    ),
    (
        "end of the holder to the next one granted, 30 waiters",
        |peer, lock| end_to_granted(peer, lock, CROWD),
        CROWD_ROUNDS,
        [0.9, 1.0],
    ),
    (
        "end of the leader to the next one printed by the last of 10 followers",
        end_to_last_follower,
        ROUNDS,
        [1.5, 1.5],
    ),
];

pub(crate) fn section(page: &mut Page, sites: &[Site; 2], etcd: &Etcd) {
    let [maria, mysql] = sites.each_ref().map(Peer::Dlock);
    let peers = [Peer::Etcd(etcd), maria, mysql];
    page.section(
        "Holds",
        &format!(
            "Times of `dlock hold --json` and `etcdctl elect` in milliseconds: p50, p90, and the ratio of the medians with \
             its target. A hold ends with its stdin, and `etcdctl elect` with SIGTERM. Each of {CROWD} waiters holds the \
             lock for {HOLD:?}. Followers are `dlock leader --follow` and `etcdctl elect --listen`."
        ),
    );
    let rows = MEASURES.map(|(name, round, rounds, targets)| {
        let times = in_turn(peers.len(), rounds, |index, number| {
            round(peers[index], &format!("{name} {number}"))
        });
        let cell = |times: &[Duration]| {
            let [p50, p90] = [50, 90].map(|part| millis(percentile(times, part)));
            format!("**{p50}** {p90}")
        };
        let median = |times: &[Duration]| percentile(times, 50).as_secs_f64();
        let mut row = vec![name.to_owned(), cell(&times[0])];
        for (own, target) in times[1..].iter().zip(targets) {
            let ratio = median(own) / median(&times[0]);
            let verdict = verdict(ratio <= target);
            row.extend([cell(own), format!("{ratio:.2} (≤ {target}: {verdict})")]);
        }
        row
    });
    let head = "time | `etcdctl elect` | `dlock hold`, MariaDB | ratio | `dlock hold`, MySQL | \
        ratio";
    page.table(head, &rows);
    idle_cost(page, sites);
}

fn start_to_granted(peer: Peer, lock: &str) -> Vec<Duration> {
    let mut scene = Scene::new(peer, lock);
    let started = Instant::now();
    scene.contend();
    vec![scene.next_grant().1 - started]
}

/// Returns a time for each of `waiters`, which all hold the lock once.
fn end_to_granted(peer: Peer, lock: &str, waiters: usize) -> Vec<Duration> {
    let mut scene = Scene::new(peer, lock);
    scene.contend();
    let (mut holder, _) = scene.next_grant();
    for _ in 0..waiters {
        scene.contend();
    }
    scene.wait_until_queued(waiters);
    let next = |_| {
        thread::sleep(HOLD);
        let ended = scene.end(holder);
        let (next, at) = scene.next_grant();
        holder = next;
        at - ended
    };
    (0..waiters).map(next).collect()
}

/// Returns the time from the end of a leader to the moment when the last follower has printed the next one.
fn end_to_last_follower(peer: Peer, lock: &str) -> Vec<Duration> {
    let mut scene = Scene::new(peer, lock);
    let old = scene.contend();
    scene.next_grant();
    let new = scene.contend();
    scene.wait_until_queued(1);
    let followers = follow(&mut scene, FOLLOWERS);
    wait_until_printed(&scene, followers.clone(), old);
    thread::sleep(SETTLED);
    let ended = scene.end(old);
    vec![wait_until_printed(&scene, followers, new) - ended]
}

/// Starts `count` followers, and returns their numbers.
fn follow(scene: &mut Scene, count: usize) -> BTreeSet<usize> {
    (0..count).map(|_| scene.follow()).collect()
}

/// Waits until all `followers` have printed the contender `leader`. Returns the time of the last line.
fn wait_until_printed(scene: &Scene, mut followers: BTreeSet<usize>, leader: usize) -> Instant {
    let name = contender_name(leader);
    loop {
        let printed = scene.next_line();
        if printed.line == name && followers.remove(&printed.program) && followers.is_empty() {
            return printed.at;
        }
    }
}

/// Writes the part of a core that a server uses without followers and with many.
fn idle_cost(page: &mut Page, sites: &[Site; 2]) {
    for site in sites {
        let (name, pid) = (site.name(), site.server.pid());
        let mut scene = Scene::new(Peer::Dlock(site), "idle");
        let leader = scene.contend();
        scene.next_grant();
        let without = load(pid);
        let followers = follow(&mut scene, IDLE_FOLLOWERS);
        wait_until_printed(&scene, followers, leader);
        thread::sleep(SETTLED);
        let with = load(pid);
        page.item(format_args!(
            "{name}: the server uses {:.2} % of a core with {IDLE_FOLLOWERS} followers, and {:.2} % without them, over {IDLE_TIME:?}. \
             Target: at most {:.0} % with them, {}.",
            with * 100.0,
            without * 100.0,
            IDLE_TARGET * 100.0,
            verdict(with <= IDLE_TARGET),
        ));
    }
}

/// Returns the part of a core that the process uses from now on.
fn load(pid: u32) -> f64 {
    let (start, before) = (Instant::now(), host::cpu(pid));
    thread::sleep(IDLE_TIME);
    let used = host::cpu(pid).saturating_sub(before);
    used.as_secs_f64() / start.elapsed().as_secs_f64()
}

struct Printed {
    program: usize,
    at: Instant,
    line: String,
}

/// The contenders for one lock, and its followers.
struct Scene<'a> {
    peer: Peer<'a>,
    lock: &'a str,
    programs: Vec<Child>,
    sender: Sender<Printed>,
    printed: Receiver<Printed>,
}

impl<'a> Scene<'a> {
    fn new(peer: Peer<'a>, lock: &'a str) -> Self {
        let (sender, printed) = mpsc::channel();
        Self {
            peer,
            lock,
            programs: Vec::new(),
            sender,
            printed,
        }
    }

    /// Starts a contender, and returns its number.
    fn contend(&mut self) -> usize {
        let name = contender_name(self.programs.len());
        self.start(&match self.peer {
            Peer::Dlock(site) => {
                let hold = ["hold", self.lock, "--json", "-q", "--holder", &name];
                dlock(&site.database, &hold)
            }
            Peer::Etcd(etcd) => etcd.client(&["elect", self.lock, &name]),
        })
    }

    /// Starts a program that prints the name of each new leader, and returns its number.
    fn follow(&mut self) -> usize {
        self.start(&match self.peer {
            Peer::Dlock(site) => dlock(&site.database, &["leader", self.lock, "--follow"]),
            Peer::Etcd(etcd) => etcd.client(&["elect", "--listen", self.lock]),
        })
    }

    /// Starts a program whose lines are timed, and returns its number.
    fn start(&mut self, command: &Command) -> usize {
        let mut child = tied(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let (program, sender) = (self.programs.len(), self.sender.clone());
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let at = Instant::now();
                // The scene may have ended.
                let _ = sender.send(Printed { program, at, line });
            }
        });
        self.programs.push(child);
        program
    }

    /// Returns the next line of any program.
    fn next_line(&self) -> Printed {
        let printed = self.printed.recv_timeout(PATIENCE);
        printed.expect("a program prints a line")
    }

    /// Returns the contender that is granted the lock next, and the time at which its line was read.
    fn next_grant(&self) -> (usize, Instant) {
        let mark = match self.peer {
            Peer::Dlock(_) => r#""event":"granted""#,
            // The key of the contender.
            Peer::Etcd(_) => self.lock,
        };
        loop {
            let printed = self.next_line();
            if printed.line.contains(mark) {
                return (printed.program, printed.at);
            }
        }
    }

    fn wait_until_queued(&self, waiters: usize) {
        eventually("all contenders wait", || {
            waiters
                == match self.peer {
                    Peer::Dlock(site) => queued(site, self.lock).len(),
                    Peer::Etcd(etcd) => etcd.queue(self.lock).saturating_sub(1),
                }
        });
        thread::sleep(SETTLED);
    }

    /// Makes the holder release the lock, and returns the time of the request.
    fn end(&mut self, holder: usize) -> Instant {
        let program = &mut self.programs[holder];
        let at = Instant::now();
        match self.peer {
            Peer::Dlock(_) => drop(program.stdin.take()),
            Peer::Etcd(_) => {
                kill_process(Pid::from_child(program), Signal::TERM).expect("the holder runs");
            }
        }
        at
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        for program in &mut self.programs {
            // A program may have ended already.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

fn contender_name(number: usize) -> String {
    format!("contender-{number}")
}
