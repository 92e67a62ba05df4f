//! Kills the processes of the holder.

use rustix::process::Signal;

use crate::checks::KillKind;
use crate::processes::{Process, is_connected, send, tree};

/// Kills processes of the holder, whose dlock has the process id `parent`. The server has the TCP port `port`.
pub(crate) fn kill(kind: KillKind, parent: u32, port: u16) {
    match kind {
        KillKind::Client => {
            let command = command(parent);
            let is_client = |process: &&Process| is_connected(process.pid, port);
            let clients: Vec<&Process> = command.iter().filter(is_client).collect();
            let victims = match clients.is_empty() {
                true => command.iter().collect(),
                false => clients,
            };
            for process in victims {
                send(process, Signal::KILL);
            }
        }
        KillKind::Parent => {
            if let Some(process) = tree(parent).first() {
                send(process, Signal::KILL);
            }
        }
        KillKind::All => {
            // A stopped process starts no other process, so the second loop kills the whole tree.
            let stopped = loop {
                let processes = tree(parent);
                if processes.iter().all(|it| ['T', 'Z'].contains(&it.state)) {
                    break processes;
                }
                for process in &processes {
                    send(process, Signal::STOP);
                }
            };
            for process in stopped {
                send(&process, Signal::KILL);
            }
        }
    }
}

/// Returns the processes of the command: the descendants of the monitor.
fn command(parent: u32) -> Vec<Process> {
    let monitor = dlock::sys::process::MONITOR.to_string_lossy();
    let monitor = tree(parent).into_iter().find(|it| it.name == monitor);
    monitor.map_or_else(Vec::new, |monitor| tree(monitor.pid).split_off(1))
}
