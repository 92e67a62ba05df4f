//! Faults of the network between the contenders and the server. The action's proxy injects them.

use std::time::Duration;

use testkit::proxy::{self, AcceptMode, Flow, Proxy};

use super::Nemesis;
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::schedule::{Route, Step};

/// Pause after each byte of a dripping connection. A renewal then takes minutes.
const DRIP: Duration = Duration::from_secs(1);

/// Maximum time to wait for a request to which a fault applies, and the polling interval.
const REQUEST_WAIT: Duration = Duration::from_secs(6);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The requests whose response may be lost while the connection remains. The wait for the queue lock is excluded. A
/// waiter that misses this response detects the loss only when the server ends the session, which would be a second
/// fault.
const REQUESTS: [proxy::Kind; 4] = [
    proxy::Kind::TryAcquire,
    proxy::Kind::Renew,
    proxy::Kind::Handoff,
    proxy::Kind::Release,
];

/// Codes of errors that a server, a cluster or a proxy may return after the commit: node not in the cluster, proxy
/// error, lock wait timeout, deadlock, read-only server, killed query.
const ERRORS: [u16; 6] = [1047, 1105, 1205, 1213, 1290, 1317];

impl Nemesis<'_> {
    /// Injects the fault into all connections through the action's proxy. Returns the start time of the fault; None if
    /// no run was affected.
    pub(super) fn inject_network_fault(&self, step: Step) -> Option<Micros> {
        let proxy = self.site.proxies.get(self.action())?;
        let left = Duration::from_millis(200);
        let live_runs = &self.context.live_runs;
        let holder = live_runs.holder(self.action(), left, |run| run.plan.route == Route::Proxy)?;
        let fault = self.begin(step.kind, None, None);
        let pause = || self.pause(step, &holder);
        let hit = match step.kind {
            FaultKind::LoseReply | FaultKind::LateReply | FaultKind::ErrorReply => {
                self.inject_reply_fault(proxy, step, pause)
            }
            FaultKind::ResetConnections => {
                proxy.reset();
                true
            }
            FaultKind::Silence => {
                proxy.door(AcceptMode::Silent);
                proxy.reset();
                pause();
                proxy.door(AcceptMode::Open);
                // Resets the connections that were accepted while the proxy was silent.
                proxy.reset();
                true
            }
            _ => {
                let (requests, replies) = match step.kind {
                    FaultKind::CutRequests => (Flow::Lose, Flow::Pass),
                    FaultKind::CutReplies => (Flow::Pass, Flow::Lose),
                    FaultKind::Delay => (Flow::Hold, Flow::Hold),
                    FaultKind::Drip => (Flow::Drip(DRIP), Flow::Drip(DRIP)),
                    _ => (Flow::Lose, Flow::Lose),
                };
                proxy.requests(requests);
                proxy.responses(replies);
                pause();
                proxy.both(Flow::Pass);
                true
            }
        };
        self.end(fault, hit)
    }

    /// Drops the response to the next request of one kind, delays the response with `delay`, or replaces it with an
    /// error. Returns false if no such request is sent within [`REQUEST_WAIT`] or before the fault phase ends.
    fn inject_reply_fault(&self, proxy: &Proxy, step: Step, delay: impl Fn()) -> bool {
        let fault = match step.kind {
            FaultKind::LoseReply => proxy::Fault::LoseResponse,
            FaultKind::ErrorReply => {
                let code = ERRORS[step.choice / REQUESTS.len() % ERRORS.len()];
                let error = proxy::error_packet(code, "an error after the commit");
                proxy::Fault::RespondAfter(error)
            }
            _ => proxy::Fault::HoldResponse,
        };
        let case = proxy.next(REQUESTS[step.choice % REQUESTS.len()], fault);
        let mut left = REQUEST_WAIT;
        while case.hits() == 0 && !left.is_zero() && self.context.live_runs.pause(POLL_INTERVAL) {
            left = left.saturating_sub(POLL_INTERVAL);
        }
        case.lift();
        if case.hits() > 0 {
            delay();
        }
        case.let_go();
        case.hits() > 0
    }
}
