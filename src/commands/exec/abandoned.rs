//! Ends the leases of a dlock that has died, for example after `kill -9`. The monitor runs this code when the command's
//! whole tree is dead.
//!
//! Otherwise, the next command would start only when the lease has expired, and the server could commit an ALTER of the
//! dead command before that time.

use std::thread;
use std::time::Duration;

use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId};
use crate::outcome::{RunFacts, release_after_death};
use crate::process::monitor::LeftLeases;
use crate::protocol::keeper::{
    Input, Keeper, KeeperSettings, LeftSessions, ReleaseEffort, Step, WorkEnd,
};
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;
use crate::store::{Contender, Store};
use crate::sys::{clock, inherited};

/// Maximum pause between two steps.
const PAUSE: Duration = Duration::from_millis(100);

/// The facts about the run that the monitor knows from its start.
#[derive(Clone)]
pub(super) struct Abandoned {
    /// The owner id and the contender of each lease, in the order of the names.
    pub(super) leases: Vec<(OwnerId, Contender)>,
    pub(super) targets: Targets,
    pub(super) settings: KeeperSettings,
    pub(super) min_hold: Duration,
}

impl Abandoned {
    /// Ends the command's sessions and releases the leases, within the time that they have left. The
    /// threads of the workers end with the process.
    pub(super) fn end(&self, left: &LeftLeases) {
        // A reader of the pipe that dlock had as stderr must not wait for this process.
        inherited::close_stderr();
        thread::scope(|scope| {
            for ((owner_id, contender), token) in self.leases.iter().zip(&left.tokens).rev() {
                let grant = Grant::new(*owner_id, *token);
                let end = move || self.end_lease(grant, contender, left);
                // If there is no thread, the lease expires.
                let _ = thread::Builder::new().spawn_scoped(scope, end);
            }
        });
    }

    fn end_lease(&self, grant: Grant, contender: &Contender, left: &LeftLeases) {
        let Timing {
            request_timeout,
            ttl,
            ..
        } = self.settings.timing;
        let database = Database::new(self.targets.clone(), request_timeout, ttl);
        if let Ok(worker) = Worker::start(database) {
            let limit = left.deadline.kill.since(clock::now());
            let (this, contender, left) = (self.clone(), contender.clone(), left.clone());
            // Nobody is left to whom a failure could be reported. The lease then expires.
            let _ = worker.call(limit, move |database| {
                this.send_requests(grant, &contender, &left, database);
                Ok(())
            });
        }
    }

    fn send_requests(
        &self,
        grant: Grant,
        contender: &Contender,
        left: &LeftLeases,
        database: &mut Database,
    ) {
        let facts = RunFacts {
            waited: left.waited,
            took: left.took,
            ..RunFacts::default()
        };
        let end = WorkEnd {
            release: release_after_death(grant, facts, self.min_hold),
            took: left.took,
            sessions: LeftSessions::End,
            effort: ReleaseEffort::WithinLease,
        };
        let settings = self.settings;
        let mut keeper = Keeper::abandoned(grant, settings, left.deadline, end, clock::now());
        loop {
            let now = clock::now();
            match keeper.poll(now) {
                Step::Send(request) => {
                    let response = database.request(contender, &request);
                    keeper.handle(clock::now(), Input::Response(Box::new(response)));
                }
                Step::Wait(until) => thread::park_timeout(until.map_or(PAUSE, |at| at.since(now))),
                // The keeper does not check the address, and no request is in flight here.
                Step::Interrupt | Step::Reconnect | Step::ReadAddress(_) => {}
                Step::Over => return,
            }
        }
    }
}
