//! Measures stalls of the machine and of its servers, without dlock.
//!
//! On a busy machine a server may take longer for a commit than a short lease can wait. Neither the schedule nor dlock
//! is the cause: the probes record such stalls, and the checkers allow for them.

use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use crate::history::{Event, Line, Micros, micros, now};
use crate::run_context::RunContext;
use crate::testbed::Site;

/// Time from one probe to the next.
const PULSE: Duration = Duration::from_millis(50);

/// Shortest stall that is recorded: less than the request timeout of the shortest lease, which is a third of a second.
const SLOW: Duration = Duration::from_millis(200);

/// Records when this process was not scheduled, until the end of the run.
pub(crate) fn machine(context: &RunContext) {
    while !context.live_runs.is_closed() {
        let before = now();
        thread::sleep(PULSE);
        note(
            context,
            None,
            (now() - before).saturating_sub(micros(PULSE)),
        );
    }
}

/// Records when the site's server takes long to commit, until the end of the run.
pub(crate) fn server(context: &RunContext, site: &Site) {
    while !context.live_runs.is_closed() {
        let before = now();
        // A server that is down returns an error; its outage is recorded as a fault.
        let _ = commit(&site.database.socket_url());
        note(context, Some(&site.name), now() - before);
        thread::sleep(PULSE * 4);
    }
}

/// Does what a renewal does after a fault: connects, logs in and commits.
fn commit(url: &str) -> mysql::Result<()> {
    let mut connection = Conn::new(Opts::from_url(url)?)?;
    connection.query_drop("UPDATE probe SET beat=beat+1")
}

/// Creates the table of the probe.
pub(crate) fn set_up(connection: &mut Conn) {
    for statement in [
        "CREATE TABLE probe (id INT PRIMARY KEY, beat BIGINT)",
        "INSERT INTO probe VALUES (1, 0)",
    ] {
        let made = connection.query_drop(statement);
        made.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn note(context: &RunContext, site: Option<&str>, took: Micros) {
    if took > micros(SLOW) {
        let site = site.map(str::to_owned);
        let event = Event::Stalled { site, micros: took };
        context.journal.write(&Line { at: now(), event });
    }
}
