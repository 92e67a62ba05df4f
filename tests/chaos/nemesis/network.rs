//! Faults of the network between contenders and server, by way of the action's proxy.

use std::time::Duration;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::kind::Kind;
use crate::proxy::{self, Door, Flow, Proxy};
use crate::schedule::Step;

/// Pause after each byte of a dripping connection: a packet of renewal takes minutes.
const DRIP: Duration = Duration::from_secs(1);

/// How long the question may be in coming whose reply is to be lost, and how often to look.
const QUESTION: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(20);

/// The questions whose reply may be lost on its own. Not the wait for the gate: whoever has lost that reply but not
/// the connection learns so when the server ends the session, which is another fault.
const QUESTIONS: [proxy::Kind; 4] = [
    proxy::Kind::Attempt,
    proxy::Kind::Renew,
    proxy::Kind::Notice,
    proxy::Kind::Release,
];

/// Numbers of errors that an honest server, a cluster or a proxy may send after the commit: not in the cluster, a proxy's
/// own error, lock wait, deadlock, read-only, killed query.
const ERRORS: [u16; 6] = [1047, 1105, 1205, 1213, 1290, 1317];

impl Nemesis<'_> {
    /// Brings the fault to all who go through the action's proxy; when it began, if there was somebody.
    pub(super) fn strike_network(&self, step: Step) -> Option<Micros> {
        let proxy = self.site.proxies.get(&self.action)?;
        let left = Duration::from_millis(200);
        let board = &self.course.board;
        let holder = board.holder_by_proxy(&self.action, left, SEARCH)?;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let fault = self.begin(step.kind, None, None);
        let pause = || self.course.weather.pause(length);
        let hit = match step.kind {
            Kind::LoseReply | Kind::LateReply | Kind::ErrorReply => {
                self.strike_reply(proxy, step, length)
            }
            Kind::ResetConnections => {
                proxy.reset();
                true
            }
            Kind::Silence => {
                proxy.door(Door::Silent);
                proxy.reset();
                pause();
                proxy.door(Door::Open);
                // Nobody has to wait for those that will never hear a word.
                proxy.reset();
                true
            }
            _ => {
                let (requests, replies) = match step.kind {
                    Kind::CutRequests => (Flow::Lose, Flow::Pass),
                    Kind::CutReplies => (Flow::Pass, Flow::Lose),
                    Kind::Delay => (Flow::Hold, Flow::Hold),
                    Kind::Drip => (Flow::Drip(DRIP), Flow::Drip(DRIP)),
                    _ => (Flow::Lose, Flow::Lose),
                };
                proxy.requests(requests);
                proxy.replies(replies);
                pause();
                proxy.both(Flow::Pass);
                true
            }
        };
        fault.end(self.course, hit)
    }

    /// Loses the reply to the next question of a kind, delivers it so much later, or an error in its place; whether one
    /// came.
    fn strike_reply(&self, proxy: &Proxy, step: Step, late: Duration) -> bool {
        let fault = match step.kind {
            Kind::LoseReply => proxy::Fault::LoseReply,
            Kind::ErrorReply => {
                let code = ERRORS[step.choice / QUESTIONS.len() % ERRORS.len()];
                let error = proxy::error_packet(code, "an error after the commit");
                proxy::Fault::AnswerAfter(error)
            }
            _ => proxy::Fault::HoldReply,
        };
        let case = proxy.next(QUESTIONS[step.choice % QUESTIONS.len()], fault);
        let mut left = QUESTION;
        while case.hits() == 0 && !left.is_zero() && self.course.weather.pause(LOOK) {
            left = left.saturating_sub(LOOK);
        }
        case.lift();
        if case.hits() > 0 {
            self.course.weather.pause(late);
        }
        case.let_go();
        case.hits() > 0
    }
}
