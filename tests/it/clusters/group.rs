//! Tests on a group of three MySQL servers (Group Replication).

use testkit::cli_runner::eventually;
use testkit::clusters::{Group, group};
use testkit::command::signal;
use testkit::holder::Holder;
use testkit::servers::Database;

use super::{are_served_in_order, exec};
use crate::doctor::Findings;
use crate::hosts::{hold, host, ran, survives, waiter};
use crate::queue::Queue;

/// Creates a database whose account may read the members of the group, and waits until the other members have it.
fn database(group: &Group) -> Database {
    let primary = &group.members[0];
    let database = primary.database("group");
    database.grant("SELECT ON performance_schema.replication_group_members");
    exec(&database, &[]).expect(0, "ran\n", "");
    group.wait_applied();
    database
}

#[track_caller]
fn is_refused(database: &Database, reason: &str, advice: &str) {
    for options in [
        &["--connect-timeout=1s"][..],
        &["--connect-timeout=1s", "-n"],
    ] {
        let outcome = exec(database, options);
        outcome.expect(69, "", reason);
        outcome.expect(69, "", advice);
    }
    let findings = Findings::at(&database.url());
    let fix = findings.reports("cluster", "fail", reason);
    assert!(fix.contains(advice), "{findings:#?}");
    assert_eq!(findings.status, 78, "{findings:#?}");
}

#[test]
fn only_the_primary_is_used_by_an_account_that_sees_the_group() {
    let group = group();
    let (primary, secondary) = (&group.members[0], &group.members[1]);
    let database = primary.database("blind");
    let grant = "GRANT SELECT ON performance_schema.replication_group_members TO";
    exec(&database, &[]).expect(77, "", grant);
    let findings = Findings::at(&database.url());
    let fix = findings.reports("cluster", "fail", "cannot see the members of the group");
    // The fix works.
    primary.run(&fix);
    let holder = Holder::on(&database, &[]);
    exec(&database, &["-n"]).expect(75, "", "init is held by");
    assert_eq!(holder.end().status, Some(3));
    let findings = Findings::at(&database.url());
    let fact = "the primary of a group with 3 online members";
    findings.reports("cluster", "ok", fact);
    findings.are_good_except(&["replication"]);
    group.wait_applied();
    let advice = format!("use the primary, {}", host(primary.port()));
    let there = secondary.same(&database);
    is_refused(&there, "a secondary of a group", &advice);
}

#[test]
fn a_primary_outside_its_group_is_refused_and_holders_follow_when_it_returns() {
    let group = group();
    let database = database(&group);
    let (first, second) = (&group.members[0], &group.members[1]);
    let holder = Holder::on(&database, &["--ttl", "6s"]);
    first.run("STOP GROUP_REPLICATION; SET GLOBAL super_read_only=OFF; SET GLOBAL read_only=OFF");
    // The member accepts writes again, so only the check of the member refuses the renewals.
    holder.running.wait().expect(76, "", "not an ONLINE member");
    let executed = || first.value::<String>("SELECT @@gtid_executed");
    let before = executed();
    let reason = "OFFLINE and not an ONLINE member";
    is_refused(&database, reason, "use an ONLINE member");
    assert_eq!(executed(), before, "dlock has written outside the group");
    first.run("START GROUP_REPLICATION");
    group.wait_healthy();

    // Another member is the primary now.
    let primary = "SELECT member_port FROM performance_schema.replication_group_members WHERE member_role='PRIMARY'";
    let primary: u16 = second.value(primary);
    let hosts = [primary, first.port()].map(host);
    let holder = hold(&database, &hosts);
    let waiter = waiter(&database, &hosts);
    first.run("DO group_replication_set_as_primary(@@server_uuid)");
    group.wait_healthy();
    survives(holder, &hosts[1], &database);
    ran(waiter);
}

#[test]
fn a_member_without_a_majority_is_refused_without_waiting() {
    let group = group();
    let database = database(&group);
    let primary = &group.members[0];
    let to_others = |name| {
        for member in &group.members[1..] {
            signal(member.pid(), name);
        }
    };
    to_others("STOP");
    primary.wait_until(
        "COUNT(*)=2 FROM performance_schema.replication_group_members WHERE member_state='UNREACHABLE'",
    );
    is_refused(&database, "it reaches 1 of 3 members", "has a majority");
    to_others("CONT");
    group.wait_healthy();
    // The first requests may wait until the members that were frozen have caught up.
    eventually("the primary is used again", || {
        exec(&database, &[]).status == Some(0)
    });
}

#[test]
fn every_member_of_a_multi_primary_group_is_used_and_waiters_are_served_in_order() {
    let group = group();
    let database = database(&group);
    let first = &group.members[0];
    first.run("DO group_replication_switch_to_multi_primary_mode()");
    let there = group.members[1].same(&database);
    let holder = Holder::on(&database, &[]);
    exec(&there, &["-n"]).expect(75, "", "init is held by");
    Findings::at(&there.url()).reports("cluster", "warn", "every member accepts writes");
    assert_eq!(holder.end().status, Some(3));
    let queue = Queue::of(database, "12s");
    are_served_in_order(queue, &group.members, || group.wait_applied());
    first.run("DO group_replication_switch_to_single_primary_mode(@@server_uuid)");
    group.wait_healthy();
}
