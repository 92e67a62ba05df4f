//! Faults of a server. The server is killed, shut down or frozen.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::servers::Server;

use super::{RECOVERY, begin};
use crate::fault_kind::FaultKind;
use crate::processes::is_alive;
use crate::run_context::RunContext;
use crate::schedule::steps;
use crate::testbed::Site;

/// Minimum time between two faults. Leases are renewed during this pause. Otherwise, successive faults would act as one
/// long fault.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum time for a clean shutdown. After this time, the server is killed.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// Injects faults of `kinds` into `server` until the fault phase ends.
pub(crate) fn inject_faults(
    context: &RunContext,
    site: &Site,
    server: &mut Server,
    kinds: &[FaultKind],
) {
    for step in steps(context.seed, &site.name, kinds) {
        if !context.fault_phase.pause(step.pause + MIN_PAUSE) {
            return;
        }
        let fault = begin(context, site, step.kind, None, None, Some(server.pid()));
        match step.kind {
            FaultKind::KillServer => server.restart(),
            FaultKind::RestartServer => {
                shut_down(server);
                server.restart();
            }
            _ => {
                let length = step.kind.length(Duration::from_secs(3), step.severity);
                send(server, Signal::STOP);
                context.fault_phase.pause(length);
                send(server, Signal::CONT);
            }
        }
        let at = fault.at;
        let _ = fault.end(context, true);
        context
            .live_runs
            .wait_for_start(&site.actions, at, RECOVERY);
    }
}

/// Shuts the server down, and returns once its process has ended or [`SHUTDOWN`] has passed.
pub(super) fn shut_down(server: &Server) {
    send(server, Signal::TERM);
    let turn = Duration::from_millis(20);
    let mut left = SHUTDOWN;
    while is_alive(server.pid()) && !left.is_zero() {
        thread::sleep(turn);
        left -= turn;
    }
}

/// Sends `signal` to the server. The script that started the server has not waited for the server process, so the
/// kernel cannot have reused the process id.
pub(super) fn send(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a server has a process id"), signal)
        .expect("the server can be signalled");
}
