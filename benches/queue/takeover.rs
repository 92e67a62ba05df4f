//! Measures the time from the failure of a holder to the start of the next command. The holder fails directly after a
//! renewal, which is the worst case.

use std::fs::File;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::percentile;
use testkit::bench::site::Site;
use testkit::bench::{dlock, tied};
use testkit::cli_runner::eventually;
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::sql::Sql;

use crate::competitor::queued;
use crate::timestamp_command;

const TTLS: [u64; 3] = [4, 10, 30];
const REPETITIONS: usize = 3;

/// Pause between two readings of the number of renewals.
const PAUSE: Duration = Duration::from_millis(10);

/// A failure of the holder, with the maximum time in seconds by which the next command may start later than a ttl.
type Fault = (&'static str, fn(&Holder), f64);

const FAULTS: [Fault; 2] = [
    ("all processes killed", |holder| holder.running.crash(), 1.0),
    // The monitor kills the command at the deadline.
    ("dlock frozen", |holder| holder.running.signal("STOP"), 2.0),
];

/// Measures all cases at the same time, each with its own lock.
pub(crate) fn section(page: &mut Page, sites: &[Site; 2]) {
    page.section(
        "Take-over",
        &format!(
            "Times from the SIGKILL of all processes of the holder or the SIGSTOP of its dlock, directly after a renewal, to \
             the start of the next command, minus the ttl, in seconds, over {REPETITIONS} repetitions."
        ),
    );
    let rows: Vec<Vec<String>> = thread::scope(|scope| {
        let sites = sites.iter();
        let faults = sites.flat_map(|site| FAULTS.map(|fault| (site, fault)));
        let cases = faults.flat_map(|(site, fault)| TTLS.map(|ttl| (site, fault, ttl)));
        let threads: Vec<ScopedJoinHandle<_>> = cases
            .map(|(site, fault, ttl)| scope.spawn(move || row(site, fault, ttl)))
            .collect();
        let rows = threads.into_iter().map(ScopedJoinHandle::join);
        rows.map(|row| row.expect("a case is measured")).collect()
    });
    let head = "holder | ttl | minimum | median | maximum | allowed | target";
    page.table(head, &rows);
}

fn row(site: &Site, fault: Fault, ttl: u64) -> Vec<String> {
    let (name, _, allowed) = fault;
    let lags: Vec<f64> = (0..REPETITIONS)
        .map(|number| lag(site, fault, ttl, &format!("{name} {ttl} {number}")))
        .collect();
    let [minimum, median, maximum] = [0, 50, 100].map(|part| percentile(&lags, part));
    vec![
        format!("{}, {name}", site.name()),
        format!("{ttl} s"),
        format!("{minimum:+.2}"),
        format!("{median:+.2}"),
        format!("{maximum:+.2}"),
        format!("{allowed:+.2}"),
        verdict(maximum <= allowed).to_owned(),
    ]
}

/// Returns the time from the fault to the start of the next command, minus the ttl, in seconds.
fn lag(site: &Site, fault: Fault, ttl: u64, action: &str) -> f64 {
    let (_, inject, _) = fault;
    let stage = Stage::new();
    let (log, ttl_option) = (stage.path("log"), format!("--ttl={ttl}s"));
    File::create(&log).expect("a file can be created");
    let options = [&format!("--action={action}"), ttl_option.as_str()];
    let holder = Holder::on(&site.database, &options);
    let mut next = dlock(&site.database, &["exec", "-a", action, &ttl_option, "--"]);
    next.args(timestamp_command::command(&log, "next", "0"));
    let mut next = tied(&next).spawn().expect("setpriv is installed");
    eventually("the waiter waits", || queued(site, action).len() == 1);
    let mut session = site.database.admin_conn();
    let query = format!("SELECT renewals FROM dlock_lock WHERE action='{action}'");
    let mut renewals = || -> Option<u64> { session.first(&query) };
    let before = renewals();
    while renewals() == before {
        thread::sleep(PAUSE);
    }
    let failed = timestamp_command::now();
    inject(&holder);
    let status = next.wait().expect("a child can be waited for");
    assert!(status.success(), "the next holder: {status}");
    let start = timestamp_command::read(&log)[0].start;
    start.saturating_sub(failed).as_secs_f64() - Duration::from_secs(ttl).as_secs_f64()
}
