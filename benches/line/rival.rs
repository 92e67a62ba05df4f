//! What can be waited for: dlock on one of the servers, with and without its hand-off, `etcdctl lock`, `flock`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use crate::alone;
use crate::etcd::Etcd;
use crate::site::Site;

pub(crate) enum Rival {
    Dlock(Rc<Site>),
    /// dlock, which waits for the commit of each release before the next holder may start.
    WithoutHandOff(Rc<Site>),
    Etcd(Etcd),
    /// By the file that is locked; the kernel's own line, without a server: the floor.
    Flock(PathBuf),
}

impl Rival {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dlock(site) => format!("`dlock exec`, {}", site.name()),
            Self::WithoutHandOff(site) => {
                format!("`dlock exec` without the hand-off, {}", site.name())
            }
            Self::Etcd(_) => "`etcdctl lock`".to_owned(),
            Self::Flock(_) => "`flock`".to_owned(),
        }
    }

    /// Where dlock is on.
    pub(crate) fn site(&self) -> &Site {
        match self {
            Self::Dlock(site) | Self::WithoutHandOff(site) => site,
            Self::Etcd(_) | Self::Flock(_) => panic!("dlock is not on there"),
        }
    }

    /// Runs `command` under the lock `action` on behalf of `name`.
    pub(crate) fn lock(&self, action: &str, name: &str, command: &[OsString]) -> Command {
        match self {
            Self::Dlock(site) => {
                let mut lock = site.exec(&["-a", action, "--holder", name, "--"]);
                lock.args(command);
                lock
            }
            Self::WithoutHandOff(site) => {
                let mut lock = site.exec_without_hand_off(&["-a", action, "--holder", name, "--"]);
                lock.args(command);
                lock
            }
            Self::Etcd(etcd) => etcd.lock(action, command),
            Self::Flock(file) => {
                let mut lock = alone("flock");
                lock.arg(file).args(command);
                lock
            }
        }
    }

    /// How many wait for the lock `action`, which somebody holds.
    pub(crate) fn waiting(&self, action: &str) -> usize {
        match self {
            // Nobody else waits there at that time.
            Self::Dlock(site) | Self::WithoutHandOff(site) => site.standing(),
            Self::Etcd(etcd) => etcd.queue(action).saturating_sub(1),
            Self::Flock(file) => {
                let inode = file.metadata().map_or(0, |data| data.ino());
                let locks = fs::read_to_string("/proc/locks").expect("/proc is mounted");
                let waits =
                    |line: &&str| line.contains("-> FLOCK") && line.contains(&format!(":{inode} "));
                locks.lines().filter(waits).count()
            }
        }
    }
}
