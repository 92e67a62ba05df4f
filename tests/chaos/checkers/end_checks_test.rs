//! Tests with histories in which a waiter waits too long, or a run is killed without a cause or exits with an incorrect
//! status.

use super::history_text::{assert_with, timeline, violations, violations_at};
use crate::check::{bystanders, cause, excused, latencies, min_hold, once, once_runs};
use crate::fault_kind::FaultKind;

const TAKEOVER: &str = "a lease is taken over in time";
const CAUSE: &str = "no run of dlock ends without a documented cause";
const SERVED: &str = "every contender is served after the faults";

/// Faults of a server and of the nodes of a cluster.
const OUTAGES: [&str; 7] = [
    "freeze-server",
    "kill-node",
    "restart-node",
    "freeze-node",
    "isolate-node",
    "switch-primary",
    "lose-primary",
];

/// A complete run of the only holder, and the quiet phase after it.
const GOOD: &str = "1000-5000 run 1 token=10, 9000 quiet";

/// Returns a history of a holder whose parent is killed at 10 s, and a waiter whose command starts at `next`
/// milliseconds.
fn killed(next: u64) -> String {
    let holder = "10000-10001 kill-parent 1, 10010 dead 1, 10010 ended 1 signal=9";
    format!("{holder}, {}", taken_over(next))
}

/// Returns a history of a holder whose parent is frozen at 10 s.
fn frozen(until: u64, next: u64) -> String {
    let ended = until + 10;
    let holder =
        format!("10000-{until} freeze-parent-long 1, 11800 dead 1, {ended} ended 1 status=76");
    format!("{holder}, {}", taken_over(next))
}

fn taken_over(next: u64) -> String {
    let [finished, dead, ended] = [50, 60, 70].map(|after| next + after);
    let waiter = format!("8500 asked 2, {next} started 2 token=11, {finished} finished 2");
    let ends = format!("{dead} dead 2, {ended} ended 2 status=0, 30000 quiet, 31000 overdue");
    format!("8000 asked 1, 8100 started 1 token=10, {waiter}, {ends}")
}

#[test]
fn late_takeover_is_reported() {
    // The limit is the sum of the ttl (2 s), the promised 1 s and the tolerance (1.5 s).
    assert!(violations(&killed(14_400)).is_empty());
    assert_eq!(violations(&killed(14_600)), [TAKEOVER]);
    // The limit is the sum of the ttl (2 s), the promised 2 s and the tolerance (1.5 s).
    assert!(violations(&frozen(20_000, 15_400)).is_empty());
    assert_eq!(violations(&frozen(20_000, 15_600)), [TAKEOVER]);
    // The holder resumes after half a second and can still renew its lease.
    let resumed = violations(&frozen(10_500, 15_600));
    assert!(!resumed.contains(&TAKEOVER), "{resumed:?}");
}

#[test]
fn takeovers_are_timed() {
    let taken_over = timeline(&killed(12_800));
    assert_eq!(latencies(&taken_over, FaultKind::KillParent), [800_000]);
}

#[test]
fn takeover_during_or_after_a_server_outage_is_not_reported() {
    for kind in OUTAGES {
        let late = killed(14_600);
        assert_with(&late, &format!("9000-9200 {kind}"), []);
        assert_with(&late, &format!("11000-11200 {kind}"), []);
        // This outage begins after the take-over was due.
        assert_with(&late, &format!("15000-15200 {kind}"), [TAKEOVER]);
    }
}

#[test]
fn takeover_after_the_priority_of_a_stale_queue_entry_is_not_reported() {
    let is_late = |site, kind, next| {
        let waiter = "1000 asked 3, 3000 ended 3 signal=9";
        let history = format!("{}, {waiter}, 2990-3000 {kind}", killed(next));
        violations_at(site, &history).contains(&TAKEOVER)
    };
    // The limit is the sum of the ttl (2 s), the promised 1 s, the priority of a queue entry (3 s) and the tolerance
    // (1.5 s).
    for (site, kind) in [
        ("nodes", "kill-waiter 3"),
        ("nodes", "kill-node"),
        ("members", "switch-primary"),
        ("fail-over", "lose-primary"),
    ] {
        assert!(!is_late(site, kind, 17_400), "{site}, {kind}");
        assert!(is_late(site, kind, 17_600), "{site}, {kind}");
    }
    // A single server, or the primary, knows that the session of a killed waiter has ended.
    for site in ["processes", "fail-over"] {
        assert!(is_late(site, "kill-waiter 3", 14_600), "{site}");
    }
}

/// Returns a history of a run that exits with `status` before its command has finished. `fields` are those of its plan.
fn stopped_with(status: i32, fields: &str) -> String {
    let run = format!("1000 asked 1{fields}, 1100 started 1 token=10, 3000 dead 1");
    format!("{run}, 3010 ended 1 status={status}, 30000 quiet, 31000 overdue")
}

fn stopped(status: i32) -> String {
    stopped_with(status, "")
}

#[test]
fn lease_lost_without_a_cause_is_reported() {
    let lost = stopped(76);
    assert_eq!(violations(&lost), [CAUSE]);
    for kind in OUTAGES {
        // Every lease tolerates an outage of 0.3 s.
        assert_with(&lost, &format!("1200-1500 {kind}"), [CAUSE]);
        assert_with(&lost, &format!("1200-2700 {kind}"), []);
    }
    for kind in [
        "hour-forward",
        "hour-back",
        "double-speed",
        "kill-session",
        "lose-reply",
        "error-reply",
        "stop-reader",
        "reset-connections",
    ] {
        assert_with(&lost, &format!("1200-2900 {kind}"), [CAUSE]);
    }
}

#[test]
fn operator_release_explains_only_the_loss_of_the_current_lease() {
    assert_with(&stopped(76), "2900-2950 release 1", []);
    // A release does not kill a command with SIGKILL.
    assert_with(&stopped(137), "2900-2950 release 1", [CAUSE]);
    // The release is later than the end of the run, or of another action.
    assert_with(&stopped(76), "3500-3550 release 1", [CAUSE]);
    assert_with(&stopped(76), "2900-2950 release", [CAUSE]);
    // The release is of an earlier run.
    let later = stopped(76).replace("1100 started", "2500 started");
    assert_with(&later, "1000-1050 release 7", [CAUSE]);
}

#[test]
fn exit_needs_a_matching_fault() {
    for (status, kind) in [
        (137, "kill-command"),
        (143, "term-parent"),
        (76, "kill-monitor"),
        (76, "freeze-parent-near"),
    ] {
        assert_eq!(violations(&stopped(status)), [CAUSE], "{status}");
        assert_with(&stopped(status), &format!("2500-2600 {kind} 1"), []);
        // A fault of another run.
        assert_with(&stopped(status), &format!("2500-2600 {kind} 7"), [CAUSE]);
    }
    // 0 is a success without a finished command.
    for status in [0, 64, 69, 70, 75, 77, 78, 101, 126, 127, 134] {
        assert_eq!(violations(&stopped(status)), [CAUSE], "{status}");
    }
    assert_with(GOOD, "1000 asked 2, 2000 ended 2 signal=9", [CAUSE]);
}

#[test]
fn only_a_second_stop_request_explains_a_killed_command() {
    let once = format!("{}, 1050-1060 term-waiter 1", stopped(137));
    assert_eq!(violations(&once), [CAUSE]);
    assert_with(&once, "2900-2910 term-parent 1", []);
    // The second request is for another run.
    assert_with(&once, "2900-2910 term-parent 7", [CAUSE]);
}

#[test]
fn dlock_dies_of_sigterm_only_before_its_first_output() {
    let waiter = format!("{GOOD}, 2000 asked 2, 2300 ended 2 signal=15");
    assert_with(&waiter, "2200-2201 term-waiter 2", []);
    assert_with(&waiter, "2200-2201 term-waiter 1", [CAUSE]);
    assert_with(&waiter, "2200-2201 kill-session 2", [CAUSE]);
    let holder =
        "1000 asked 1, 1100 started 1 token=10, 2100 dead 1, 2200 ended 1 signal=15, 9000 quiet";
    assert_with(holder, "2000-2001 term-parent 1", [CAUSE]);
}

#[test]
fn success_after_a_lost_lease_is_reported() {
    assert_with(GOOD, "3000 revoked 1", [CAUSE]);
    // At this time, the command has finished.
    assert_with(GOOD, "4999 revoked 1", []);

    // The database has lost the grant of run 1, so that run 2 may start beside it. The status must say so.
    let first = "1000 asked 1, 1100 started 1 token=10, 2000 finished 1, 2010 ended 1 status=0";
    let beside = format!("{first}, 1400 asked 2, 1500 started 2 token=11, 9000 quiet");
    let found = cause(&timeline(&beside));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("run 2 had started"), "{found:?}");
}

#[test]
fn skipped_run_needs_a_success_just_before() {
    let other = |exit| {
        let start = format!("1000 asked 1 exit={exit}, 1100 started 1 token=10, 1900 finished 1");
        format!(
            "{start}, 1910 dead 1, 1920 ended 1 status={exit}, 1930 ended 2 status=0, 9000 quiet"
        )
    };
    assert_with(&other(0), "1500 asked 2 option=once-per", []);
    assert_with(&other(0), "1500 asked 2", [CAUSE]);
    assert_with(&other(3), "1500 asked 2 option=once-per", [CAUSE]);
}

#[test]
fn start_after_a_success_with_the_same_key_is_reported() {
    let history = |second: u64, status: i32, start: &str| {
        let first =
            "1000 asked 1 option=once, 1100 started 1 token=10, 1200 finished 1, 1210 dead 1";
        let other = format!("1300 asked {second} option=once, {start}1600 ended {second} status=0");
        timeline(&format!("{first}, 1220 ended 1 status={status}, {other}"))
    };
    let starts = |second, status| {
        let start = format!("1400 started {second} token=11, 1500 finished {second}, ");
        once(&history(second, status, &start)).len()
    };
    assert_eq!(starts(2, 0), 1);
    assert_eq!(starts(2, 3), 0, "the first run failed");
    assert_eq!(starts(1_002, 0), 0, "another key");
    let skipped = history(2, 0, "");
    assert_eq!(once(&skipped).len(), 0);
    assert_eq!(cause(&skipped).len(), 0);
    assert_eq!(once_runs(&skipped), (1, 1));
    let skipped = history(1_002, 0, "");
    assert_eq!(cause(&skipped).len(), 1, "a skip without a success");
}

#[test]
fn start_within_the_minimum_time_of_a_lock_is_reported() {
    let next = |at: u64, status: i32| {
        let run =
            r#"1000 asked 1 option={"min-hold":4000}, 1100 started 1 token=10, 1200 finished 1"#;
        let ended = format!("1210 dead 1, 1220 ended 1 status={status}, 1300 asked 2");
        min_hold(&timeline(&format!(
            "{run}, {ended}, {at} started 2 token=11"
        )))
        .len()
    };
    assert_eq!(next(3_900, 0), 1);
    assert_eq!(next(4_200, 0), 0, "the grant may be a second earlier");
    assert_eq!(next(3_900, 76), 0, "the lease was lost");
}

#[test]
fn ended_session_of_another_program_is_reported() {
    for (is_alive, expected) in [(true, 0), (false, 2)] {
        let timeline = timeline(&format!(
            "1000 session is_alive={is_alive}, 1100 session 3 is_alive={is_alive}"
        ));
        assert_eq!(bystanders(&timeline).len(), expected);
    }
}

#[test]
fn wait_timeout_and_unreachable_server_need_a_wait_limit_or_earlier_sessions() {
    let timed_out = format!("{GOOD}, 2500 ended 2 status=75");
    assert_with(&timed_out, "1500 asked 2 wait=1000", []);
    assert_with(&timed_out, "1500 asked 2", [CAUSE]);

    let (outage, short) = ("1600-2400 freeze-server", "1600-1700 freeze-server");
    let unreachable = "1000-1400 run 1 token=10, 2500 ended 2 status=69, 9000 quiet, 1500 asked 2";
    let limited = format!("{unreachable} wait=500");
    assert_with(&limited, outage, []);
    assert_with(&limited, short, [CAUSE]);
    assert_with(unreachable, outage, [CAUSE]);

    let left =
        "a session, which an earlier run of a left on the server, has not ended, and the lease";
    let ended = format!("status=69 stderr=dlock: {left}");
    let sessions = unreachable.replace("status=69", &ended);
    assert_with(&sessions, outage, []);
    assert_with(&sessions, short, [CAUSE]);
}

#[test]
fn stalled_machine_explains_a_lost_lease() {
    let lost = stopped(76);
    assert_with(&lost, "2500 stalled micros=900000", []);
    assert_with(&lost, "2500 stalled micros=900000 site=processes", []);
    assert_with(&lost, "2500 stalled micros=900000 site=clocks", []);
    assert_with(&lost, "2500 stalled micros=210000", [CAUSE]);
    // The overlapping time of two stalls counts once.
    assert_with(
        &lost,
        "2500 stalled micros=210000, 2510 stalled micros=210000",
        [CAUSE],
    );
    // A frozen server does not explain a lost lease on another site.
    let elsewhere = "2500 stalled micros=900000 site=restarts, 1500-2400 freeze-server @restarts";
    assert_with(&lost, elsewhere, [CAUSE]);
    let stalled = timeline(&format!("{lost}, 2500 stalled micros=900000"));
    assert_eq!(excused(&stalled).len(), 1);
}

#[test]
fn contender_that_is_not_served_is_reported() {
    let good = "1000-2000 run 1 token=10, 3000 quiet";
    assert_with(good, "2000 asked 2, 9000 overdue", [SERVED]);
    let killed_by_the_runner = "2000 asked 2, 9000 overdue, 9100 ended 2 signal=9";
    assert_with(good, killed_by_the_runner, [SERVED]);
    assert_with(
        good,
        "4000 asked 2, 4100 ended 2 status=76",
        [CAUSE, SERVED],
    );
    let hold = format!(
        "{good}, 4000 asked 2 kind=hold-json, 4050 started 2 token=11, 5100 ended 2 status=69"
    );
    assert!(violations(&hold).contains(&SERVED), "not finished");
    assert_with(&hold, "4060 finished 2, 4070 dead 2", [CAUSE]);
    // A run of the schedule may find a success. Without one, its end has no cause.
    let skipped = "4000 asked 2 exit=3 option=once, 4100 ended 2 status=0";
    assert_with(good, skipped, [CAUSE]);
    // There is no grant.
    assert_eq!(violations("1000 quiet"), [SERVED]);
    assert_eq!(violations("1000 overdue"), [SERVED], "no quiet phase");
}

/// A revoked lease whose command fails before its dlock notices the revocation, because the server does not respond.
#[test]
fn failure_of_a_command_is_passed_on_if_the_release_is_not_confirmed() {
    let ended = |status: i32, stderr: &str| {
        let run = format!("1000 asked 1 exit={status}, 1100 started 1 token=10, 1200 revoked 1");
        let end =
            format!("1300 finished 1, 1310 dead 1, 2300 ended 1 status={status} stderr={stderr}");
        violations(&format!("{run}, {end}, 9000 quiet"))
    };
    let unreleased = "dlock: cannot release a: no response in time; it expires within 3s\n";
    assert!(ended(42, unreleased).is_empty());
    assert_eq!(ended(42, ""), [CAUSE]);
    assert_eq!(ended(0, unreleased), [CAUSE]);
}

#[test]
fn program_of_a_hold_that_stops_without_a_cause_is_reported() {
    let stopped = |status| stopped_with(status, " kind=hold-json");
    for (status, kinds) in [
        (0, &["kill-command", "term-parent", "stop-reader"][..]),
        (0, &["freeze-parent-near"]),
        (69, &[]),
        (76, &["freeze-parent-long"]),
    ] {
        let stopped = stopped(status);
        assert_eq!(violations(&stopped), [CAUSE], "{status}");
        assert_with(&stopped, "1200-2700 freeze-server", []);
        for kind in kinds {
            assert_with(&stopped, &format!("2500-2600 {kind} 1"), []);
        }
    }
    assert_with(&stopped(76), "2500-2600 kill-command 1", [CAUSE]);
}
