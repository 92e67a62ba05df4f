//! What the monitor does with the lease if dlock itself has died, for example after `kill -9`, and the command's whole
//! tree is dead.
//!
//! Without this, the next command would start only after the lease has expired, and an ALTER that the command has begun
//! would be committed in the meantime.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId};
use crate::outcome::{RunFacts, release_after_death};
use crate::process::monitor::LeftLease;
use crate::protocol::abandoned::{AbandonedLease, AbandonedStep};
use crate::store::Contender;
use crate::store::mysql::Database;
use crate::store::session::SessionPolicy;
use crate::store::target::Targets;
use crate::sys::{clock, inherited};

/// What the monitor knows about the lease from its start.
pub(super) struct Abandoned {
    pub(super) owner_id: OwnerId,
    pub(super) contender: Contender,
    pub(super) targets: Targets,
    pub(super) timing: Timing,
    pub(super) policy: SessionPolicy,
    pub(super) min_hold: Duration,
}

impl Abandoned {
    /// Ends the command's sessions and releases the lease, within the time that the lease has left. The work runs on a
    /// thread, because some operations of the driver have no time limit. The thread ends with the process.
    pub(super) fn end(self, left: LeftLease) {
        // A reader of the pipe that dlock had as stderr must not wait for this process.
        inherited::close_stderr();
        let until = left.deadline.kill;
        let (sender, finished) = mpsc::channel();
        let work = move || {
            self.send_requests(&left);
            // The send fails only if the time is over.
            let _ = sender.send(());
        };
        if thread::Builder::new().spawn(work).is_ok() {
            let _ = finished.recv_timeout(until.since(clock::now()));
        }
    }

    fn send_requests(self, left: &LeftLease) {
        let grant = Grant {
            owner_id: self.owner_id,
            token: left.token,
        };
        let facts = RunFacts {
            waited: left.waited,
            took: left.took,
            ..RunFacts::default()
        };
        let release = release_after_death(grant, facts, self.min_hold);
        let until = left.deadline.kill;
        let mut lease = AbandonedLease::new(release, self.policy, until, clock::now());
        let Timing {
            request_timeout,
            ttl,
            ..
        } = self.timing;
        let mut database = Database::new(self.targets, request_timeout, ttl);
        loop {
            let now = clock::now();
            match lease.next(now) {
                AbandonedStep::Send(request) => {
                    let response = database.request(&self.contender, &request);
                    lease.handle_response(clock::now(), response);
                }
                AbandonedStep::Wait(until) => thread::park_timeout(until.since(now)),
                AbandonedStep::Over => return,
            }
        }
    }
}
