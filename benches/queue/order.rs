//! Measures whether contenders are served in the order of their arrival, and what 200 of them cost the server while they
//! wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mysql::Conn;
use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{inversions, millis, percentile, seconds};
use testkit::bench::site::Site;
use testkit::sql::Sql;

use crate::competitor::{Competitor, Shape, queued};
use crate::crowd::{Crowd, gaps, label};

const FEW: usize = 200;
const MANY: usize = 1000;
const PACE: Duration = Duration::from_millis(20);
const HOLD: Duration = Duration::from_millis(1);

/// Time for which the queries of the waiters are counted. In this time, a waiter that has just arrived prints one reminder, 30
/// seconds after its arrival. The read for a reminder takes one query, and the end of its connection may count as another
/// one. Later reminders follow after pauses that grow to 5 minutes.
const WAIT: Duration = Duration::from_secs(30);

/// Maximum number of queries of [`FEW`] waiters: 0.1 per waiter and second.
const ALLOWED: u32 = 600;

pub(crate) fn few(page: &mut Page, sites: &[Site; 2], etcd: &Etcd, folder: &Path) {
    let mut costs = Vec::new();
    let mut rows = Vec::new();
    for site in sites {
        let crowd = crowd(Competitor::Dlock(site), folder, FEW);
        costs.push(cost(site));
        rows.push(row(crowd, Competitor::Dlock(site), FEW));
    }
    let etcd = Competitor::Etcd(etcd);
    rows.push(row(crowd(etcd, folder, FEW), etcd, FEW));
    write(page, "Order", FEW, &rows);
    for cost in costs {
        page.item(cost);
    }
}

pub(crate) fn thousand(page: &mut Page, sites: &[Site; 2], folder: &Path) {
    let dlock = sites.each_ref().map(Competitor::Dlock);
    let rows = dlock.map(|dlock| row(crowd(dlock, folder, MANY), dlock, MANY));
    write(page, "A thousand contenders", MANY, &rows);
}

fn crowd<'a>(competitor: Competitor<'a>, folder: &'a Path, count: usize) -> Crowd<'a> {
    let mut crowd = Crowd::start(competitor, folder, &[Shape::Exclusive]);
    crowd.add(count, Shape::Exclusive, PACE, HOLD);
    crowd
}

/// Releases the holder, and returns the row of a competitor.
fn row(crowd: Crowd, competitor: Competitor, count: usize) -> Vec<String> {
    let arrived: Vec<String> = (0..count).map(label).collect();
    let queued = match competitor {
        Competitor::Dlock(site) => queued(site, &crowd.lock.name),
        _ => arrived.clone(),
    };
    let marks = crowd.release(1);
    let served: Vec<String> = marks[1..].iter().map(|mark| mark.name.clone()).collect();
    let held = marks[1..]
        .iter()
        .map(|mark| mark.end.saturating_sub(mark.start));
    let by_position = inversions(&queued, &served);
    let gaps = gaps(&marks);
    vec![
        competitor.name(),
        served.len().to_string(),
        inversions(&arrived, &served).to_string(),
        by_position.to_string(),
        seconds(marks[count].end.saturating_sub(marks[0].end)),
        seconds(held.sum()),
        millis(percentile(&gaps, 50)),
        millis(percentile(&gaps, 99)),
        verdict(by_position == 0 && served.len() == count).to_owned(),
    ]
}

fn write(page: &mut Page, title: &str, count: usize, rows: &[Vec<String>]) {
    page.section(
        title,
        &format!(
            "{count} contenders are started {PACE:?} apart while a holder has the lock. Then the holder ends, and each \
             contender holds the lock for {HOLD:?}. An inversion is a pair of contenders of which the later one is served \
             first. Inversions by position are relative to the order in `dlock_waiter`."
        ),
    );
    let head = "competitor | served | inversions | by position | total time, s | \
        sum of the holds, s | gap p50, ms | gap p99, ms | all served in order";
    page.table(head, rows);
}

/// Returns a text about the queries that the server gets while the contenders wait.
fn cost(site: &Site) -> String {
    let mut session = site.database.admin_conn();
    let before = counters(&mut session);
    thread::sleep(WAIT);
    let after = counters(&mut session);
    let increase = |name: &str| after[name] - before[name];
    // The benchmark itself sends one query.
    let questions = increase("Questions") - 1;
    format!(
        "{}: in {WAIT:?}, `Questions` increases by {questions}, with {} SELECT statements, for the reminders of the waiters and \
         the renewals of the holder. Target: less than {ALLOWED}, {}.",
        site.name(),
        increase("Com_select"),
        verdict(questions < ALLOWED)
    )
}

fn counters(session: &mut Conn) -> BTreeMap<String, u32> {
    let rows = session.rows("SHOW GLOBAL STATUS WHERE variable_name IN ('Questions','Com_select')");
    rows.into_iter().collect()
}
