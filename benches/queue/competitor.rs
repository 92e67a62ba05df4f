//! The compared programs, which run a command under a lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::bench::etcd::Etcd;
use testkit::bench::site::Site;
use testkit::bench::{bare, program};

use crate::timestamp_command;
use crate::zookeeper::{Client, ZooKeeper};

#[derive(Clone, Copy)]
pub(crate) enum Competitor<'a> {
    Dlock(&'a Site),
    /// The program at this path, an earlier version of dlock.
    Earlier(&'a Site, &'a Path),
    Etcd(&'a Etcd),
    ZooKeeper(&'a ZooKeeper, Client),
    /// `flock` uses the kernel's queue without a server, so its times are a lower bound.
    Flock,
}

/// Which other holders a contender accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Exclusive,
    Shared,
    Slots(usize),
}

/// The name of a lock, and the folder for the files of its contenders.
pub(crate) struct Lock<'a> {
    pub(crate) name: String,
    pub(crate) folder: &'a Path,
}

impl Lock<'_> {
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }
}

impl Competitor<'_> {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Dlock(site) => format!("`dlock exec`, {}", site.name()),
            Self::Earlier(site, _) => format!("earlier `dlock exec`, {}", site.name()),
            Self::Etcd(_) => "`etcdctl lock`".to_owned(),
            Self::ZooKeeper(_, Client::Kazoo) => "kazoo".to_owned(),
            Self::ZooKeeper(_, Client::Curator) => "Curator".to_owned(),
            Self::Flock => "`flock`".to_owned(),
        }
    }

    /// Returns a contender that records when it holds the lock. `label` is its name, and `timestamp_command` describes `hold`.
    pub(crate) fn contender(self, lock: &Lock, shape: Shape, label: &str, hold: &str) -> Command {
        let command = timestamp_command::command(&lock.path("log"), label, hold);
        let mut contender = match self {
            Self::ZooKeeper(server, client) => {
                let mut contender = server.contender(client);
                contender.args([&lock.name, &shape.to_zookeeper()]);
                contender.args([ready(lock, label), lock.path("log")]);
                contender.args([label, hold]);
                return contender;
            }
            _ => self.lock(lock, shape, label),
        };
        contender.args(command);
        contender
    }

    /// Returns the program without the command that runs under the lock. Panics for a client of ZooKeeper, which runs none.
    pub(crate) fn lock(self, lock: &Lock, shape: Shape, label: &str) -> Command {
        let exec = |site: &Site, program: &Path| {
            let mut exec = bare(program);
            exec.env("DLOCK_URL", site.database.url());
            exec.args(["exec", "-q", "-a", &lock.name, "--holder", label]);
            match shape {
                Shape::Exclusive => {}
                Shape::Shared => drop(exec.arg("--shared")),
                Shape::Slots(slots) => drop(exec.arg(format!("--slots={slots}"))),
            }
            exec.arg("--");
            exec
        };
        match self {
            Self::Dlock(site) => exec(site, program()),
            Self::Earlier(site, program) => exec(site, program),
            Self::Etcd(etcd) => etcd.client(&["lock", &lock.name]),
            Self::Flock => {
                let mut flock = bare("flock");
                flock.args((shape == Shape::Shared).then_some("-s"));
                flock.arg(lock.path("flock"));
                flock
            }
            Self::ZooKeeper(..) => panic!("the contender runs no command"),
        }
    }

    /// Returns how many of the contenders `labels` wait for the lock, which must be held.
    pub(crate) fn waiting(self, lock: &Lock, labels: &[String]) -> usize {
        match self {
            Self::Dlock(site) | Self::Earlier(site, _) => queued(site, &lock.name).len(),
            Self::Etcd(etcd) => etcd.queue(&lock.name).saturating_sub(1),
            Self::ZooKeeper(..) => (labels.iter())
                .filter(|label| ready(lock, label).exists())
                .count(),
            Self::Flock => {
                let inode = lock.path("flock").metadata().map_or(0, |data| data.ino());
                let locks = fs::read_to_string("/proc/locks").expect("/proc is mounted");
                let waits =
                    |line: &&str| line.contains("-> FLOCK") && line.contains(&format!(":{inode} "));
                locks.lines().filter(waits).count()
            }
        }
    }
}

impl Shape {
    fn to_zookeeper(self) -> String {
        match self {
            Self::Exclusive => "exclusive".to_owned(),
            Self::Shared => "shared".to_owned(),
            Self::Slots(slots) => slots.to_string(),
        }
    }
}

/// Returns the file that a contender on ZooKeeper creates when it is about to acquire the lock.
fn ready(lock: &Lock, label: &str) -> PathBuf {
    lock.path(&format!("{label}.ready"))
}

/// Returns the names of the waiters for `action`, in the order of their positions.
pub(crate) fn queued(site: &Site, action: &str) -> Vec<String> {
    site.database.rows(format!(
        "SELECT CAST(w.holder AS CHAR) FROM dlock_waiter w WHERE w.action='{action}' \
         AND NOT EXISTS (SELECT 1 FROM dlock_lock l WHERE l.owner_id=w.owner_id) ORDER BY w.position"
    ))
}
