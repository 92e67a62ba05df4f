//! Measures `dlock hold` beside `etcdctl elect`: the time from the start of a contender to its grant, and from the end of a
//! holder to the next grant, with one waiter and with many, and until `followers` print it.
//!
//! A program that uses `dlock hold` releases the lock by the end of stdin. `etcdctl elect` resigns when it gets SIGTERM.
//! Threads of this program read what the contenders print, and time each line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::bench::etcd::Etcd;
use testkit::bench::fifo::eventually;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};

use crate::competitor::Competitor;
use crate::followers::{self, end_to_last_follower};
use crate::site::Site;

/// Number of rounds with one waiter, and number of grants that they measure.
const ROUNDS: usize = 40;

/// Number of the many waiters, and of the rounds with them. Each waiter is measured.
const CROWD: usize = 30;
const CROWD_ROUNDS: usize = 3;

/// Time after the arrival of the last waiter. Waiters normally finish their set-up within this time.
pub(crate) const SETTLED: Duration = Duration::from_millis(300);

/// Time for which each contender holds the lock. It finishes its set-up within this time.
const HOLD: Duration = Duration::from_millis(20);

/// Maximum time until an expected line is printed.
const PATIENCE: Duration = Duration::from_mins(1);

/// A compared program.
#[derive(Clone)]
pub(crate) enum Peer<'a> {
    Dlock(Rc<Site>),
    Etcd(&'a Etcd),
}

/// A time that all peers have, with the largest ratio to etcd on MariaDB and on MySQL.
struct Measure {
    name: &'static str,
    /// Measures one round of a peer, on a lock that no other round uses.
    round: fn(&Peer, &str) -> Vec<Duration>,
    rounds: usize,
    targets: [f64; 2],
}

const MEASURES: [Measure; 4] = [
    Measure {
        name: "start to granted",
        round: start_to_granted,
        rounds: ROUNDS,
        targets: [0.6, 0.6],
    },
    Measure {
        name: "end of the holder to the next one granted, 1 waiter",
        round: |peer, lock| end_to_granted(peer, lock, 1),
        rounds: ROUNDS,
        targets: [0.9, 1.0],
    },
    Measure {
        name: "end of the holder to the next one granted, 30 waiters",
        round: |peer, lock| end_to_granted(peer, lock, CROWD),
        rounds: CROWD_ROUNDS,
        targets: [0.9, 1.0],
    },
    Measure {
        name: "end of the leader to the next one printed by the last of 10 followers",
        round: end_to_last_follower,
        rounds: ROUNDS,
        targets: [1.5, 1.5],
    },
];

/// Measures the two servers of `dlock`, MariaDB first, and etcd.
pub(crate) fn section(page: &mut Page, dlock: &[Competitor; 2], etcd: &Competitor) {
    let Competitor::Etcd(etcd) = etcd else {
        panic!("the peer is etcd");
    };
    let [maria, mysql] = dlock.each_ref().map(|it| Peer::Dlock(it.shared_site()));
    let peers = [Peer::Etcd(etcd), maria, mysql];
    page.section(
        "Holds",
        &format!(
            "Times of `dlock hold --json` and `etcdctl elect` in milliseconds: p50, p90, and the ratio of the medians with \
             its target. A hold ends with its stdin, and `etcdctl elect` with SIGTERM. Each of {CROWD} waiters holds the \
             lock for {} ms. Followers are `dlock leader --follow` and `etcdctl elect --listen`.",
            HOLD.as_millis()
        ),
    );
    let rows: Vec<Vec<String>> = MEASURES.iter().map(|it| it.row(&peers)).collect();
    page.table(
        &[
            "time",
            "`etcdctl elect`",
            "`dlock hold`, MariaDB",
            "ratio",
            "`dlock hold`, MySQL",
            "ratio",
        ],
        &rows,
    );
    followers::idle_cost(page, dlock.each_ref().map(Competitor::shared_site));
}

impl Measure {
    /// Measures all peers once in each round. The first peer changes with each round.
    fn row(&self, peers: &[Peer; 3]) -> Vec<String> {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..self.rounds {
            for turn in 0..peers.len() {
                let index = (turn + round) % peers.len();
                let lock = format!("{} {round}", self.name);
                times[index].extend((self.round)(&peers[index], &lock));
            }
        }
        let median = |times: &[Duration]| percentile(times, 50);
        let cell = |times: &[Duration]| {
            let [p50, p90] = [median(times), percentile(times, 90)].map(millis);
            format!("**{p50}** {p90}")
        };
        let [etcd, dlock @ ..] = &times;
        let mut row = vec![self.name.to_owned(), cell(etcd)];
        for (times, target) in dlock.iter().zip(self.targets) {
            let ratio = median(times).as_secs_f64() / median(etcd).as_secs_f64();
            let verdict = verdict(ratio <= target);
            row.extend([cell(times), format!("{ratio:.2} (≤ {target}: {verdict})")]);
        }
        row
    }
}

fn start_to_granted(peer: &Peer, lock: &str) -> Vec<Duration> {
    let mut scene = Scene::new(peer, lock);
    let started = Instant::now();
    scene.contend();
    vec![scene.next_grant().1 - started]
}

/// Returns a time for each of `waiters`, which all hold the lock once.
fn end_to_granted(peer: &Peer, lock: &str, waiters: usize) -> Vec<Duration> {
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

/// A line that a program printed.
pub(crate) struct Printed {
    pub(crate) program: usize,
    pub(crate) at: Instant,
    pub(crate) line: String,
}

/// The contenders for one lock, and its followers.
pub(crate) struct Scene<'a> {
    peer: &'a Peer<'a>,
    lock: &'a str,
    programs: Vec<Child>,
    sender: Sender<Printed>,
    printed: Receiver<Printed>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(peer: &'a Peer, lock: &'a str) -> Self {
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
    pub(crate) fn contend(&mut self) -> usize {
        let name = contender_name(self.programs.len());
        self.start(match self.peer {
            Peer::Dlock(site) => {
                let mut hold = site.dlock(&["hold", self.lock, "--json", "-q"]);
                hold.args(["--holder", &name]);
                hold
            }
            Peer::Etcd(etcd) => etcd.elect(&[self.lock, &name]),
        })
    }

    /// Starts a program that prints the name of each new leader, and returns its number.
    pub(crate) fn follow(&mut self) -> usize {
        self.start(match self.peer {
            Peer::Dlock(site) => site.dlock(&["leader", self.lock, "--follow"]),
            Peer::Etcd(etcd) => etcd.elect(&["--listen", self.lock]),
        })
    }

    /// Starts a program whose lines are timed, and returns its number.
    fn start(&mut self, mut command: Command) -> usize {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let (program, sender) = (self.programs.len(), self.sender.clone());
        thread::spawn(move || time_lines(stdout, program, &sender));
        self.programs.push(child);
        program
    }

    /// Returns the next line of any program.
    pub(crate) fn next_line(&self) -> Printed {
        let printed = self.printed.recv_timeout(PATIENCE);
        printed.expect("a program prints a line")
    }

    /// Returns the contender that is granted the lock next, and the time at which its line was read.
    pub(crate) fn next_grant(&self) -> (usize, Instant) {
        loop {
            let printed = self.next_line();
            let is_grant = match self.peer {
                Peer::Dlock(_) => printed.line.contains(r#""event":"granted""#),
                // The key of the contender.
                Peer::Etcd(_) => printed.line.starts_with(self.lock),
            };
            if is_grant {
                return (printed.program, printed.at);
            }
        }
    }

    pub(crate) fn wait_until_queued(&self, waiters: usize) {
        eventually("all contenders wait", Duration::from_millis(20), || {
            waiters
                == match self.peer {
                    Peer::Dlock(site) => site.queued_names(self.lock).len(),
                    Peer::Etcd(etcd) => etcd.queue(self.lock).saturating_sub(1),
                }
        });
        thread::sleep(SETTLED);
    }

    /// Makes the holder release the lock, and returns the time of the request.
    pub(crate) fn end(&mut self, holder: usize) -> Instant {
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

/// Returns the name of the contender with this number.
pub(crate) fn contender_name(number: usize) -> String {
    format!("contender-{number}")
}

/// Sends each line of `stdout` with the time at which it was read.
fn time_lines(stdout: impl Read, program: usize, sender: &Sender<Printed>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let at = Instant::now();
        // The scene may have ended.
        let _ = sender.send(Printed { program, at, line });
    }
}
