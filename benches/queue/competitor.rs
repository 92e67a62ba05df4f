//! The compared programs: dlock on one of the servers, with and without its hand-off, another version of dlock,
//! `etcdctl lock`, and `flock`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use testkit::bench::etcd::Etcd;

use crate::bare_command;
use crate::site::Site;

pub(crate) enum Competitor {
    Dlock(Rc<Site>),
    /// dlock without its hand-off. The next holder can start only after the commit of the release.
    WithoutHandOff(Rc<Site>),
    /// The program at this path, an earlier version of dlock.
    Earlier(Rc<Site>, PathBuf),
    Etcd(Etcd),
    /// `flock` on this file. `flock` uses the kernel's queue without a server, so its times are a lower bound.
    Flock(PathBuf),
}

impl Competitor {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dlock(site) => format!("`dlock exec`, {}", site.name()),
            Self::WithoutHandOff(site) => {
                format!("`dlock exec` without the hand-off, {}", site.name())
            }
            Self::Earlier(site, _) => format!("earlier `dlock exec`, {}", site.name()),
            Self::Etcd(_) => "`etcdctl lock`".to_owned(),
            Self::Flock(_) => "`flock`".to_owned(),
        }
    }

    /// Returns the site of dlock. Panics for other competitors.
    pub(crate) fn site(&self) -> &Site {
        match self {
            Self::Dlock(site) | Self::WithoutHandOff(site) | Self::Earlier(site, _) => site,
            Self::Etcd(_) | Self::Flock(_) => panic!("this competitor is not dlock"),
        }
    }

    /// Returns the site of dlock, as [`Self::site`] does.
    pub(crate) fn shared_site(&self) -> Rc<Site> {
        match self {
            Self::Dlock(site) | Self::WithoutHandOff(site) | Self::Earlier(site, _) => {
                Rc::clone(site)
            }
            Self::Etcd(_) | Self::Flock(_) => panic!("this competitor is not dlock"),
        }
    }

    /// Returns a command that runs `command` under the lock `action`. `name` is the label of the holder.
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
            Self::Earlier(site, program) => {
                let mut lock = site.exec_by(program, &["-a", action, "--holder", name, "--"]);
                lock.args(command);
                lock
            }
            Self::Etcd(etcd) => etcd.lock(action, command),
            Self::Flock(file) => {
                let mut lock = bare_command("flock");
                lock.arg(file).args(command);
                lock
            }
        }
    }

    /// Returns the number of waiters for the lock `action`, which must be held.
    pub(crate) fn waiting(&self, action: &str) -> usize {
        match self {
            // When this method is called, the site has no waiters for other actions.
            Self::Dlock(site) | Self::WithoutHandOff(site) | Self::Earlier(site, _) => {
                site.waiting_sessions()
            }
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
