//! The metrics of all actions, in the Prometheus text format. Pure.
//!
//! dlock-serve(1) documents the metrics. They are a stable interface: metrics may be added, but an existing metric is
//! never changed. Their names differ from those of `exec --metrics-file`, which describe one run.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use crate::locks::snapshot::TimedSnapshot;
use crate::metrics::{escaped, seconds};
use crate::store::diagnosis::{Diagnosis, Severity};
use crate::store::{HistoryOutcome, LockRecord, LockState};

/// The present state of one action.
struct ActionMetrics<'a> {
    /// The name, escaped.
    action: String,
    record: &'a LockRecord,
    waiters: usize,
    /// Time for which the first waiter has waited. None if there are no waiters.
    waits: Option<Duration>,
}

/// Returns the metrics if the latest query has failed.
#[must_use]
pub fn without_database() -> String {
    let mut text = String::new();
    up(&mut text, false);
    text
}

/// Returns the metrics of all actions.
#[must_use]
pub fn text(latest: &TimedSnapshot) -> String {
    let actions: Vec<_> = (latest.snapshot.locks.iter())
        .map(|record| ActionMetrics {
            action: escaped(record.action.as_str()),
            record,
            waiters: latest.waiting(&record.action),
            waits: latest.longest_known_wait(&record.action),
        })
        .collect();
    let mut text = String::new();
    up(&mut text, true);
    single(
        &mut text,
        "read_only",
        "1 if the database server is read-only, so that its data may be old.",
        u8::from(latest.snapshot.is_read_only),
    );
    let when_held = |action: &ActionMetrics| {
        action.record.is_leased() && action.record.state() != LockState::Expired
    };
    let mut family = |name: &str, help: &str, value: &dyn Fn(&ActionMetrics) -> Option<String>| {
        head(&mut text, name, help);
        for action in &actions {
            if let Some(value) = value(action) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "dlock_{name}{{action=\"{}\"}} {value}", action.action);
            }
        }
    };
    let flag = |is: bool| Some(u8::from(is).to_string());
    family(
        "action_held",
        "1 if the lock is held, also if only for --min-hold; 0 if it is free or its lease has expired.",
        &|action| flag(when_held(action)),
    );
    family(
        "action_holders",
        "Number of leases of the lock that have not ended.",
        &|action| {
            let leases = action.record.leases();
            let held = leases.filter(|lease| lease.state() != LockState::Free);
            Some(held.count().to_string())
        },
    );
    family(
        "action_slots",
        "Number of leases that the smallest --slots of the holders allows; missing if nobody holds a slot, and with \
         --shared.",
        &|action| Some(action.record.smallest_limit()?.count()?.to_string()),
    );
    family(
        "action_problem",
        "1 if the holder does not renew its lease, is gone, is being stopped or is in a deadlock, or if the lease has \
         expired, the server's clock was set back, or the row is odd; 0 otherwise.",
        &|action| flag(Severity::of(action.record) == Severity::Problem),
    );
    family(
        "action_paused",
        "1 if an operator has paused the lock, 0 otherwise.",
        &|action| flag(action.record.pause.is_some()),
    );
    family(
        "action_held_seconds",
        "Time since the grant, for a lock that is held.",
        &|action| when_held(action).then(|| seconds(action.record.main_lease().held_for)),
    );
    family(
        "action_renewed_seconds",
        "Time since the grant or the latest renewal, for a lock that is held and whose command runs.",
        &|action| {
            is_renewed(action.record).then(|| seconds(action.record.main_lease().renewed_ago()))
        },
    );
    family(
        "action_ttl_seconds",
        "Length of the lease, for a lock that is held.",
        &|action| when_held(action).then(|| seconds(action.record.main_lease().ttl)),
    );
    family(
        "action_waiters",
        "Number of processes that wait for the lock.",
        &|action| Some(action.waiters.to_string()),
    );
    family(
        "action_longest_wait_seconds",
        "Time for which the first waiter has waited, if there is one whose session dlock can see.",
        &|action| action.waits.map(seconds),
    );
    family("action_token", "Fencing token.", &|action| {
        Some(action.record.lease.version.token.to_string())
    });
    last_runs(&mut family, latest.server_time());
    text
}

/// Writes a family of metrics with a name, a help text, and the value for each action.
type Family<'a> = dyn FnMut(&str, &str, &dyn Fn(&ActionMetrics) -> Option<String>) + 'a;

fn last_runs(family: &mut Family<'_>, server_time: Duration) {
    let flag = |is: bool| Some(u8::from(is).to_string());
    family(
        "action_last_run_success",
        "1 if the most recent recorded run ended with status 0, 0 otherwise. Missing if no run is recorded.",
        &|action| {
            let last = action.record.last?;
            flag(last.outcome == HistoryOutcome::Exited(0))
        },
    );
    family(
        "action_last_run_timestamp_seconds",
        "Time at which the most recent recorded run ended, in seconds since 1970 by the database server's clock.",
        &|action| {
            let ago = action.record.last?.ago;
            Some(seconds(server_time.saturating_sub(ago)))
        },
    );
}

fn up(text: &mut String, is_up: bool) {
    single(
        text,
        "up",
        "1 if the database has returned the records, 0 if it does not respond or refuses the query.",
        u8::from(is_up),
    );
}

/// Returns true if the holder of `record` renews its lease, or should renew it.
fn is_renewed(record: &LockRecord) -> bool {
    !matches!(
        Diagnosis::of(record),
        Diagnosis::Free | Diagnosis::Paused | Diagnosis::MinHold | Diagnosis::Odd
    )
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP dlock_{name} {help}");
    let _ = writeln!(text, "# TYPE dlock_{name} gauge");
}

fn single(text: &mut String, name: &str, help: &str, value: impl Display) {
    head(text, name, help);
    let _ = writeln!(text, "dlock_{name} {value}");
}
