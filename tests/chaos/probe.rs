//! Measures stalls of the machine and of its servers, without dlock.
//!
//! On a busy machine, a commit may take so long that a short lease expires. The probes record such stalls, and the
//! checkers add them to the allowed times, because neither the schedule nor dlock is the cause.

use std::thread;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::servers::Database;
use testkit::sql::{Sql, connect};

use crate::history::{Event, Micros, micros, now};
use crate::run_context::RunContext;
use crate::testbed::{Purpose, Site};

const INTERVAL: Duration = Duration::from_millis(50);

/// Minimum length of a recorded stall. It is less than the request timeout of the shortest lease, which is a third of a
/// second.
const MIN_STALL: Duration = Duration::from_millis(200);

/// Until the chaos run ends, records the periods in which the kernel did not schedule this process.
pub(crate) fn machine(context: &RunContext) {
    while !context.live_runs.is_closed() {
        let before = now();
        thread::sleep(INTERVAL);
        record(
            context,
            None,
            (now() - before).saturating_sub(micros(INTERVAL)),
        );
    }
}

/// Until the chaos run ends, records slow commits of the site's server, which is reached through `database`.
pub(crate) fn server(context: &RunContext, site: &Site, database: &Database) {
    while !context.live_runs.is_closed() {
        let before = now();
        // If the server is down, this call returns an error. The outage is already recorded as a fault.
        let _ = commit(&database.url(), site.purpose);
        record(context, Some(&site.name), now() - before);
        thread::sleep(INTERVAL * 4);
    }
}

/// Connects, logs in and commits, like a renewal after a fault.
fn commit(url: &str, purpose: Purpose) -> mysql::Result<()> {
    // A member outside its group accepts writes, but it cannot join again after a write of its own.
    let condition = match purpose {
        Purpose::Members => {
            " WHERE EXISTS(SELECT 1 FROM performance_schema.replication_group_members \
             WHERE member_id=@@server_uuid AND member_state='ONLINE')"
        }
        _ => "",
    };
    connect(url)?.query_drop(format!("UPDATE probe SET beat=beat+1{condition}"))
}

pub(crate) fn set_up(connection: &mut Conn) {
    connection.run(
        "CREATE TABLE probe (id INT PRIMARY KEY, beat BIGINT); \
         INSERT INTO probe VALUES (1, 0)",
    );
}

fn record(context: &RunContext, site: Option<&str>, took: Micros) {
    if took > micros(MIN_STALL) {
        let site = site.map(str::to_owned);
        let event = Event::Stalled { site, micros: took };
        context.journal.record(event);
    }
}
