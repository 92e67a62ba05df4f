//! Tests with histories that contain overlapping commands, invalid tokens, incorrect counters, or processes that die
//! too late.

use super::history_text::{assert_with, violations};

const OVERLAP: &str = "no two process trees of an action run at the same time";
const TOKENS: &str = "tokens increase in the order of the starts";
const COUNTER: &str = "a store that checks tokens loses no increment";
const CAUSE: &str = "no run of dlock ends without a documented cause";
const DEATHS: &str = "a process tree dies with its dlock";

const GOOD: &str = "1000-2000 run 1 token=10, 2100-3000 run 2 token=11, 25000 quiet, 30000 overdue";

const END: &str = "25000 quiet, 30000 overdue";

#[test]
fn failed_witness_lock_is_an_overlap() {
    let started = "3200 started 3 token=12 alone=false, 3300 dead 3, 3400 ended 3 status=99";
    assert_with(GOOD, &format!("3100 asked 3, {started}"), [OVERLAP]);
}

#[test]
fn event_after_a_later_start_is_an_overlap() {
    let counts = "1300 counting 1 count=1, 1300 counted 1 count=1, 7000 counter count=1";
    let first = "1000 asked 1, 1100 started 1 token=10, 1400 finished 1, 1500 dead 1, 1600 ended 1 status=0";
    // Besides, run 1 reports a success although its lease was lost.
    let history = format!("{first}, {counts}, 1200-2000 run 2 token=11");
    assert_with(&history, "5000 quiet", [OVERLAP, CAUSE]);
}

/// Run 1 is alive after the start of run 2, which has a lower token.
#[test]
fn commands_that_accept_others_may_run_at_once_and_start_in_any_order() {
    let ends = "1300 finished 1, 1310 dead 1, 1320 ended 1 status=0, 1400 finished 2, 1410 dead 2, 1420 ended 2 status=0";
    let history = format!("1100 started 1 token=11, 1200 started 2 token=10, {ends}, {END}");
    let with = |limits: [u32; 2]| {
        let [first, second] = limits;
        format!("1000 asked 1 limit={first}, 1000 asked 2 limit={second}")
    };
    assert_with(&history, &with([0, 2]), []);
    assert_with(&history, &with([1, 0]), [OVERLAP, TOKENS, CAUSE]);
    assert_with(&history, &with([2, 1]), [OVERLAP, TOKENS, CAUSE]);
}

#[test]
fn token_that_does_not_increase_or_is_refused_is_reported() {
    assert_with(GOOD, "2500 refused 2 token=11 highest=12", [OVERLAP]);
    assert_with(GOOD, "3100-4000 run 3 token=12", []);
    for token in [11, 10, 0] {
        assert_with(GOOD, &format!("3100-4000 run 3 token={token}"), [TOKENS]);
    }
}

#[test]
fn lower_token_is_accepted_only_after_a_lost_grant() {
    let (lost, switched) = ("3200-4000 lose-primary", "3200-4000 switch-primary");
    let next = "4100-4500 run 3 token=10";
    assert_with(GOOD, &format!("{lost}, {next}"), []);
    assert_with(GOOD, &format!("{switched}, {next}"), [TOKENS]);
    // The new database has granted the token.
    let again = format!("{lost}, {next}, 4600-5000 run 4 token=10");
    assert_with(GOOD, &again, [TOKENS]);
    let before = "3100-3900 run 3 token=10, 4000-5000 lose-primary";
    assert_with(GOOD, before, [TOKENS]);

    let refused = "4100 asked 3, 4200 started 3 token=10, 4300 refused 3 token=10 highest=11, 4310 dead 3, 4320 ended 3 status=98";
    assert_with(GOOD, &format!("{lost}, {refused}"), []);
    assert_with(GOOD, &format!("{switched}, {refused}"), [OVERLAP, TOKENS]);

    let beside =
        "4100 asked 3, 4200 started 3 token=12 alone=false, 4300 dead 3, 4400 ended 3 status=99";
    assert_with(GOOD, &format!("{lost}, {beside}"), [OVERLAP]);
}

#[test]
fn lost_increment_is_reported_and_unknown_one_may_count() {
    let two = format!(
        "{GOOD}, 1500 counting 1 count=1, 1500 counted 1 count=1, 2500 counting 2 count=2, 2500 counted 2 count=2"
    );
    assert_with(&two, "7000 counter count=1", [COUNTER]);
    assert_with(&two, "7000 counter count=2", []);
    assert_with(&two, "7000 counter count=3", [COUNTER]);
    let unknown = format!("{two}, 2600 counting 2 count=3");
    assert_with(&unknown, "7000 counter count=2", []);
    assert_with(&unknown, "7000 counter count=3", []);
    assert_with(&unknown, "7000 counter count=4", [COUNTER]);
}

#[test]
fn tree_that_outlives_its_dlock_is_reported() {
    let holder = format!("{GOOD}, 10000 asked 3, 10100 started 3 token=12");
    let killed = format!("{holder}, 10500-10500 kill-parent 3, 10501 ended 3 signal=9");
    assert_with(&killed, "10550 dead 3", []);
    assert_with(&killed, "13000 dead 3", [DEATHS]);
    assert_eq!(violations(&killed), [DEATHS], "it never dies");

    let frozen = format!("{holder}, 10500-15500 freeze-parent-long 3, 15600 ended 3 status=76");
    assert_with(&frozen, "12200 dead 3", []);
    assert_with(&frozen, "14600 dead 3", [DEATHS]);

    let ended = format!("{holder}, 10300 finished 3, 10400 ended 3 status=0");
    assert_with(&ended, "10390 dead 3", []);
    assert_with(&ended, "12500 dead 3", [DEATHS]);
    // The machine stalls from 11 s to 14 s.
    assert_with(&ended, "14000 dead 3, 14000 stalled micros=3000000", []);
    assert_with(
        &ended,
        "15500 dead 3, 14000 stalled micros=3000000",
        [DEATHS],
    );

    assert_with(GOOD, "9000 orphan words=sleep", [DEATHS]);
}

/// The dlock of a program is frozen at 1.5 s, and the next command starts at 4 s. The store must refuse a write of the
/// program after that. A check of the clock cannot prevent it.
#[test]
fn write_of_a_program_is_accepted_only_if_it_was_frozen_after_its_check() {
    let program =
        "1000 asked 1 kind=hold-json, 1100 started 1 token=10, 6020 dead 1, 6030 ended 1 status=76";
    let next = "1200 asked 2, 4000 started 2 token=11, 6100 finished 2, 6110 dead 2, 6120 ended 2 status=0";
    let base = format!("{program}, 1500-6000 freeze-parent-long 1, {next}, {END}");
    for written in [
        "6010 counted 1 count=1",
        "6010 refused 1 token=10 highest=11",
    ] {
        let is_overlap =
            |events: &str| violations(&format!("{base}, {events}, {written}")).contains(&OVERLAP);
        assert!(!is_overlap(
            "2000 counting 1 count=1, 2001-6000 freeze-command 1"
        ));
        assert!(is_overlap("2000 counting 1 count=1"), "it was not frozen");
        let events = "2001-6000 freeze-command 1, 6005 counting 1 count=1";
        assert!(is_overlap(events), "it was frozen before the check");
    }
}

#[test]
fn program_that_works_after_its_deadline_is_reported() {
    let holder = |shape| {
        let asked = format!("10000 asked 3 kind=hold-json shape={shape}");
        format!("{GOOD}, {asked}, 10100 started 3 token=12")
    };
    let killed = |shape| {
        let holder = holder(shape);
        format!("{holder}, 10500-10500 kill-parent 3, 10501 ended 3 signal=9")
    };
    assert_with(&killed("plain"), "10550 dead 3", []);
    assert_with(&killed("plain"), "12400 dead 3", [DEATHS]);
    assert_with(&killed("stubborn"), "12400 dead 3", []);
    assert_with(&killed("stubborn"), "14100 dead 3", [DEATHS]);

    let outage = "10500-14000 freeze-server, 12400 ended 3 status=76, 14050 dead 3";
    let lost = format!("{}, {outage}", holder("plain"));
    // A frozen program does not work.
    assert_with(&lost, "10500-14000 freeze-command 3", []);
    assert_with(&lost, "10500-12300 freeze-command 3", [DEATHS]);
}
