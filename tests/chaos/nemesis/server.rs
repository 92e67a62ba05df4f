//! Faults of a whole server: killed, shut down, frozen.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{RECOVERY, begin};
use crate::course::Course;
use crate::kind::Kind;
use crate::processes::is_alive;
use crate::schedule::steps;
use crate::servers::Server;
use crate::site::Site;

/// Time for leases to be renewed before the next fault: faults that follow each other at once are one long fault.
const RESPITE: Duration = Duration::from_secs(1);

/// How long an orderly shutdown may take before the server is killed after all.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// Brings faults of these kinds to `server` until it is calm.
pub(crate) fn rage(course: &Course, site: &Site, server: &mut Server, kinds: &[Kind]) {
    for step in steps(course.seed, &site.name, kinds) {
        if !course.weather.pause(step.pause + RESPITE) {
            return;
        }
        let fault = begin(course, site, step.kind, None, None, Some(server.pid()));
        match step.kind {
            Kind::KillServer => server.restart(),
            Kind::RestartServer => {
                shut_down(server);
                server.restart();
            }
            _ => {
                let length = step.kind.length(Duration::from_secs(3), step.severity);
                send(server, Signal::STOP);
                course.weather.pause(length);
                send(server, Signal::CONT);
            }
        }
        let at = fault.at;
        let _ = fault.end(course, true);
        course.board.goes_on(&site.actions, at, RECOVERY);
    }
}

fn shut_down(server: &Server) {
    send(server, Signal::TERM);
    let turn = Duration::from_millis(20);
    let mut left = SHUTDOWN;
    while is_alive(server.pid()) && !left.is_zero() {
        thread::sleep(turn);
        left -= turn;
    }
}

/// The script has not waited for the server yet, so the number cannot be another's.
fn send(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a server has a process"), signal).expect("it can be signalled");
}
