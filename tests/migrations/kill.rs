//! Kills the processes of the holder.

use std::{fs, iter};

use dlock::sys::proc::descendants;
use dlock::sys::process::MONITOR;
use dlock::sys::tcp::SocketFinder;
use rustix::process::{Pid, Signal, kill_process};

use crate::checks::KillKind;

/// Kills processes of the holder, whose dlock has the process id `parent`. The server has the TCP port `port`.
pub(crate) fn kill(kind: KillKind, parent: u32, port: u16) {
    let victims = match kind {
        KillKind::Client => {
            let command = command(parent).into_iter();
            let (clients, others): (Vec<u32>, Vec<u32>) =
                command.partition(|pid| is_connected(*pid, port));
            if clients.is_empty() { others } else { clients }
        }
        KillKind::Parent => vec![parent],
        // A stopped process starts no other process, so the whole tree is killed.
        KillKind::All => loop {
            let tree = tree(parent);
            if tree.iter().all(|pid| is_stopped(*pid)) {
                break tree;
            }
            send(&tree, Signal::STOP);
        },
    };
    send(&victims, Signal::KILL);
}

fn tree(root: u32) -> Vec<u32> {
    iter::once(root).chain(descendants(root)).collect()
}

/// Returns the processes of the command: the descendants of the monitor.
fn command(parent: u32) -> Vec<u32> {
    let name = MONITOR.to_string_lossy();
    let is_monitor = |pid: &u32| status(*pid, "Name:").is_some_and(|found| found == name);
    let monitor = descendants(parent).find(is_monitor);
    monitor.into_iter().flat_map(descendants).collect()
}

fn is_connected(pid: u32, port: u16) -> bool {
    let sockets = SocketFinder::default().sockets_of([pid]).tcp;
    let mut remotes = sockets.iter().map(|socket| socket.connection.remote);
    remotes.any(|remote| remote.port() == port)
}

/// Returns true if the process is stopped, is a zombie, or does not exist.
fn is_stopped(pid: u32) -> bool {
    status(pid, "State:").is_none_or(|state| state.starts_with(['T', 'Z', 'X']))
}

/// Returns the value of the line in `/proc/PID/status` that starts with `name`. None if the process does not exist.
fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

fn send(processes: &[u32], signal: Signal) {
    for process in processes {
        let pid = i32::try_from(*process).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a process id is positive"), signal);
    }
}
