//! Faults of the network between contenders and server, caused by the action's proxy.

use std::time::Duration;

use super::{Nemesis, SEARCH};
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::proxy::{self, Door, Flow, Proxy};
use crate::schedule::Step;

/// Pause after each byte of a dripping connection: a renewal takes minutes.
const DRIP: Duration = Duration::from_secs(1);

/// Maximum time to wait for a request whose response is to be lost, and the polling interval.
const REQUEST_WAIT: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(20);

/// The requests whose response may be lost without the connection. The wait for the queue lock is not one of them: a
/// waiter that has lost its response but not the connection notices only when the server ends the session, which is
/// another fault.
const REQUESTS: [proxy::Kind; 4] = [
    proxy::Kind::TryAcquire,
    proxy::Kind::Renew,
    proxy::Kind::Handoff,
    proxy::Kind::Release,
];

/// Codes of errors that a server, a cluster or a proxy may send after the commit: node not in the cluster, error of the
/// proxy, lock wait timeout, deadlock, read-only server, killed query.
const ERRORS: [u16; 6] = [1047, 1105, 1205, 1213, 1290, 1317];

impl Nemesis<'_> {
    /// Causes the fault on all connections through the action's proxy. Returns the time of its begin; None if it hit no
    /// run.
    pub(super) fn strike_network(&self, step: Step) -> Option<Micros> {
        let proxy = self.site.proxies.get(&self.action)?;
        let left = Duration::from_millis(200);
        let live_runs = &self.context.live_runs;
        let holder = live_runs.holder_by_proxy(&self.action, left, SEARCH)?;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let fault = self.begin(step.kind, None, None);
        let pause = || self.context.fault_phase.pause(length);
        let hit = match step.kind {
            FaultKind::LoseReply | FaultKind::LateReply | FaultKind::ErrorReply => {
                self.strike_reply(proxy, step, length)
            }
            FaultKind::ResetConnections => {
                proxy.reset();
                true
            }
            FaultKind::Silence => {
                proxy.door(Door::Silent);
                proxy.reset();
                pause();
                proxy.door(Door::Open);
                // Ends the connections that would never receive anything.
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
                proxy.replies(replies);
                pause();
                proxy.both(Flow::Pass);
                true
            }
        };
        fault.end(self.context, hit)
    }

    /// Loses the response to the next request of one kind, delays it by `late`, or replaces it by an error. Returns
    /// true if such a request came.
    fn strike_reply(&self, proxy: &Proxy, step: Step, late: Duration) -> bool {
        let fault = match step.kind {
            FaultKind::LoseReply => proxy::Fault::LoseReply,
            FaultKind::ErrorReply => {
                let code = ERRORS[step.choice / REQUESTS.len() % ERRORS.len()];
                let error = proxy::error_packet(code, "an error after the commit");
                proxy::Fault::AnswerAfter(error)
            }
            _ => proxy::Fault::HoldReply,
        };
        let case = proxy.next(REQUESTS[step.choice % REQUESTS.len()], fault);
        let mut left = REQUEST_WAIT;
        while case.hits() == 0 && !left.is_zero() && self.context.fault_phase.pause(LOOK) {
            left = left.saturating_sub(LOOK);
        }
        case.lift();
        if case.hits() > 0 {
            self.context.fault_phase.pause(late);
        }
        case.let_go();
        case.hits() > 0
    }
}
