//! Ends the lease of a dlock that has died, for example after `kill -9`. The monitor runs this code when the command's
//! whole tree is dead.
//!
//! Otherwise, the next command would start only when the lease has expired, and the server could commit an ALTER of the
//! dead command before that time.

use std::thread;
use std::time::Duration;

use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId};
use crate::outcome::{RunFacts, release_after_death};
use crate::process::monitor::LeftLease;
use crate::protocol::abandoned::{AbandonedLease, AbandonedStep};
use crate::store::Contender;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::session::SessionPolicy;
use crate::store::target::Targets;
use crate::sys::{clock, inherited};

/// The facts about the run that the monitor knows from its start.
pub(super) struct Abandoned {
    pub(super) owner_id: OwnerId,
    pub(super) contender: Contender,
    pub(super) targets: Targets,
    pub(super) timing: Timing,
    pub(super) policy: SessionPolicy,
    pub(super) min_hold: Duration,
}

impl Abandoned {
    /// Ends the command's sessions and releases the lease, within the time that the lease has left. The
    /// thread of the worker ends with the process.
    pub(super) fn end(self, left: LeftLease) {
        // A reader of the pipe that dlock had as stderr must not wait for this process.
        inherited::close_stderr();
        let Timing {
            request_timeout,
            ttl,
            ..
        } = self.timing;
        let database = Database::new(self.targets.clone(), request_timeout, ttl);
        if let Ok(worker) = Worker::start(database) {
            let limit = left.deadline.kill.since(clock::now());
            // Nobody is left to whom a failure could be reported. The lease then expires.
            let _ = worker.call(limit, move |database| {
                self.send_requests(&left, database);
                Ok(())
            });
        }
    }

    fn send_requests(&self, left: &LeftLease, database: &mut Database) {
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
