//! Faults of a single server.

use std::slice;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::command::is_alive;
use testkit::servers::Server;

use super::Machines;
use crate::fault_kind::FaultKind;

/// Maximum time for a clean shutdown. After this time, the server is killed.
const SHUTDOWN: Duration = Duration::from_secs(20);

impl Machines for Server {
    fn nodes(&self) -> &[Server] {
        slice::from_ref(self)
    }

    /// Leases are renewed during this pause. Otherwise, successive faults would act as one long fault.
    fn min_pause(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn inject(&mut self, _: FaultKind, _: usize, _: &dyn Fn()) {
        self.restart();
    }
}

/// Shuts the server down, and returns once its process has ended or [`SHUTDOWN`] has passed.
pub(super) fn shut_down(server: &Server) {
    send(server, Signal::TERM);
    let turn = Duration::from_millis(20);
    let mut left = SHUTDOWN;
    while is_alive(&server.pid().to_string()) && !left.is_zero() {
        thread::sleep(turn);
        left -= turn;
    }
}

/// Sends `signal` to the server. The script that started the server has not waited for the server process, so the
/// kernel cannot have reused the process id.
pub(super) fn send(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let sent = kill_process(pid.expect("a server has a process id"), signal);
    sent.expect("the server can be signalled");
}
