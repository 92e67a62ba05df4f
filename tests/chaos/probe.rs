//! Feels how the machine and its servers are, by asking neither dlock nor anything that dlock has a part in.
//!
//! On a machine on which much else runs, a server may take longer for a commit than a short lease can wait. That is no
//! fault of the schedule and none of dlock's: it is noted here, and the checkers take it into account.

use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use crate::course::Course;
use crate::history::{Event, Line, Micros, micros, now};
use crate::site::Site;

/// From one probe to the next.
const PULSE: Duration = Duration::from_millis(50);

/// What is worth a line: less than the shortest lease's patience with one request, which is a third of a second.
const SLOW: Duration = Duration::from_millis(200);

/// Notes when this process is not let run, until it is over.
pub(crate) fn machine(course: &Course) {
    while !course.board.is_closed() {
        let before = now();
        thread::sleep(PULSE);
        note(course, None, (now() - before).saturating_sub(micros(PULSE)));
    }
}

/// Notes when the site's server takes long to commit, until it is over.
pub(crate) fn server(course: &Course, site: &Site) {
    while !course.board.is_closed() {
        let before = now();
        // A server that is away gives an error, and that it is away is known.
        let _ = commit(&site.database.socket_url());
        note(course, Some(&site.name), now() - before);
        thread::sleep(PULSE * 4);
    }
}

/// What a renewal is after a fault: a new connection, a login and a commit.
fn commit(url: &str) -> mysql::Result<()> {
    let mut connection = Conn::new(Opts::from_url(url)?)?;
    connection.query_drop("UPDATE probe SET beat=beat+1")
}

/// Makes what the probe needs.
pub(crate) fn set_up(connection: &mut Conn) {
    for statement in [
        "CREATE TABLE probe (id INT PRIMARY KEY, beat BIGINT)",
        "INSERT INTO probe VALUES (1, 0)",
    ] {
        let made = connection.query_drop(statement);
        made.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn note(course: &Course, site: Option<&str>, took: Micros) {
    if took > micros(SLOW) {
        let site = site.map(str::to_owned);
        let event = Event::Stalled { site, micros: took };
        course.journal.write(&Line { at: now(), event });
    }
}
