//! Tests on a group of three MySQL servers (Group Replication).

use testkit::cli_runner::{Dlock, Outcome};
use testkit::clusters::{Group, group, run};
use testkit::holder::Holder;
use testkit::servers::{Database, Server};

use crate::doctor::Findings;

fn exec(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["exec", "-q", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
        .run()
}

fn doctor(database: &Database) -> Findings {
    Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url()))
}

/// Creates a database whose account may read the members of the group, and waits until the other members have it.
pub(super) fn database(group: &Group) -> Database {
    let primary = &group.members[0];
    let database = primary.database("group");
    let select = "GRANT SELECT ON performance_schema.replication_group_members TO";
    run(primary, &format!("{select} '{}'@'%'", database.user));
    exec(&database, &[]).expect(0, "ran\n", "");
    group.wait_applied();
    database
}

#[track_caller]
fn is_refused(database: &Database, reason: &str, advice: &str) {
    let short = ["--connect-timeout", "1s"];
    for options in [&short[..], &["-n"]] {
        let outcome = exec(database, options);
        outcome.expect(69, "", reason);
        outcome.expect(69, "", advice);
    }
    let findings = doctor(database);
    let fix = findings.reports("cluster", "fail", reason);
    assert!(fix.contains(advice), "{findings:#?}");
    assert_eq!(findings.status, 78, "{findings:#?}");
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[test]
fn the_primary_is_used_and_a_secondary_names_it() {
    let group = group();
    let database = database(&group);
    let [primary, secondary, _] = &group.members[..] else {
        panic!("the group has three members");
    };
    let holder = Holder::on(&database, &[]);
    exec(&database, &["-n"]).expect(75, "", "init is held by");
    assert_eq!(holder.end().status, Some(3));
    let findings = doctor(&database);
    findings.reports(
        "cluster",
        "ok",
        "the primary of a group with 3 online members",
    );
    findings.are_good_except(&["replication"]);
    let there = secondary.same(&database);
    is_refused(
        &there,
        "a secondary of a group",
        &format!("use the primary, {}", address(primary)),
    );
}

#[test]
fn an_account_that_cannot_see_the_group_is_refused() {
    let group = group();
    let database = group.members[0].database("blind");
    let grant = "GRANT SELECT ON performance_schema.replication_group_members TO";
    exec(&database, &[]).expect(77, "", grant);
    let findings = doctor(&database);
    let fix = findings.reports("cluster", "fail", "cannot see the members of the group");
    // The fix works.
    run(&group.members[0], &fix);
    exec(&database, &[]).expect(0, "ran\n", "");
}

#[test]
fn a_member_outside_its_group_is_refused_although_it_accepts_writes() {
    let group = group();
    let database = database(&group);
    let outside = &group.members[2];
    run(outside, "STOP GROUP_REPLICATION");
    run(outside, "SET GLOBAL super_read_only=OFF");
    run(outside, "SET GLOBAL read_only=OFF");
    let there = outside.same(&database);
    let before = testkit::clusters::value(outside, "SELECT @@gtid_executed");
    is_refused(
        &there,
        "OFFLINE and not an ONLINE member",
        "use an ONLINE member",
    );
    let after = testkit::clusters::value(outside, "SELECT @@gtid_executed");
    assert_eq!(
        before, after,
        "dlock has written to a server outside the group"
    );
    run(outside, "START GROUP_REPLICATION");
    group.wait_healthy();
}

#[test]
fn a_holder_stops_when_its_member_leaves_the_group() {
    let group = group();
    let database = database(&group);
    let (primary, other) = (&group.members[0], &group.members[1]);
    let holder = Holder::on(&database, &["--ttl", "6s"]);
    run(primary, "STOP GROUP_REPLICATION");
    run(primary, "SET GLOBAL super_read_only=OFF");
    run(primary, "SET GLOBAL read_only=OFF");
    // The member accepts writes again, so only the check of the member refuses the renewals.
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
    assert!(
        outcome.stderr.contains("not an ONLINE member"),
        "{outcome:#?}"
    );
    run(primary, "START GROUP_REPLICATION");
    group.wait_healthy();
    let uuid = testkit::clusters::value(primary, "SELECT @@server_uuid").expect("a value");
    run(
        other,
        &format!("DO group_replication_set_as_primary('{uuid}')"),
    );
    group.wait_healthy();
}

#[test]
fn a_member_without_a_majority_is_refused_without_waiting() {
    let group = group();
    let database = database(&group);
    let primary = &group.members[0];
    for frozen in &group.members[1..] {
        testkit::command::signal(frozen.pid(), "STOP");
    }
    testkit::cli_runner::eventually("the primary has no majority", || {
        let lost = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                    WHERE member_state='UNREACHABLE'";
        testkit::clusters::value(primary, lost).as_deref() == Some("2")
    });
    is_refused(&database, "it reaches 1 of 3 members", "has a majority");
    for frozen in &group.members[1..] {
        testkit::command::signal(frozen.pid(), "CONT");
    }
    group.wait_healthy();
    // The first requests may wait until the members that were frozen have caught up.
    testkit::cli_runner::eventually("the primary is used again", || {
        exec(&database, &[]).status == Some(0)
    });
}

#[test]
fn every_member_of_a_multi_primary_group_is_used() {
    let group = group();
    let database = database(&group);
    run(
        &group.members[0],
        "DO group_replication_switch_to_multi_primary_mode()",
    );
    let there = group.members[1].same(&database);
    let holder = Holder::on(&database, &[]);
    exec(&there, &["-n"]).expect(75, "", "init is held by");
    doctor(&there).reports("cluster", "warn", "every member accepts writes");
    assert_eq!(holder.end().status, Some(3));
    let uuid =
        testkit::clusters::value(&group.members[0], "SELECT @@server_uuid").expect("a value");
    let back = format!("DO group_replication_switch_to_single_primary_mode('{uuid}')");
    run(&group.members[0], &back);
    group.wait_healthy();
}
