//! Sessions that dlock must never end, because they belong to other programs: the session of the program that starts
//! dlock, and the session of a program that has nothing to do with dlock.

use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::servers::Database;
use testkit::sql::connect;

use crate::history::Event;
use crate::run_context::RunContext;
use crate::testbed::Site;

/// Interval between two checks of a session that no run has inherited.
const INTERVAL: Duration = Duration::from_millis(500);

/// A session on a server whose process is the chaos run.
pub(crate) struct Session(Conn);

impl Session {
    pub(crate) fn open(database: &Database) -> Self {
        Self(connect(&database.url()).expect("a session can be opened"))
    }

    pub(crate) fn socket(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Records whether the session is alive. Opens a new session on `database` if it has ended.
    pub(crate) fn check(
        &mut self,
        context: &RunContext,
        database: &Database,
        action: &str,
        run: Option<u64>,
    ) {
        let is_alive = self.0.query_drop("DO 0").is_ok();
        let event = Event::Session { is_alive };
        context.journal.record_of(run, action, event);
        if !is_alive {
            *self = Self::open(database);
        }
    }
}

/// Until the chaos run ends, has a session on the site's server, as a program that starts no dlock.
pub(crate) fn run_bystander(context: &RunContext, site: &Site) {
    let mut session = Session::open(&site.database);
    while !context.live_runs.is_closed() {
        thread::sleep(INTERVAL);
        session.check(context, &site.database, &site.name, None);
    }
}
