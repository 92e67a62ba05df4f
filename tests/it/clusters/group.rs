//! Tests on a group of three MySQL servers (Group Replication).

use testkit::cli_runner::eventually;
use testkit::clusters::{Group, group, value};
use testkit::command::signal;
use testkit::holder::Holder;
use testkit::servers::{Database, Server};

use super::{are_served_in_order, doctor, exec};
use crate::hosts::{dlock, host, ran, survives, waiter};
use crate::queue::Queue;

/// Creates a database whose account may read the members of the group, and waits until the other members have it.
fn database(group: &Group) -> Database {
    let primary = &group.members[0];
    let database = primary.database("group");
    let select = "GRANT SELECT ON performance_schema.replication_group_members TO";
    primary.run(format!("{select} '{}'@'%'", database.user));
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
    let findings = doctor(&database.url());
    let fix = findings.reports("cluster", "fail", reason);
    assert!(fix.contains(advice), "{findings:#?}");
    assert_eq!(findings.status, 78, "{findings:#?}");
}

fn server_uuid(server: &Server) -> String {
    value(server, "SELECT @@server_uuid").expect("a value")
}

#[test]
fn only_the_primary_is_used_by_an_account_that_sees_the_group() {
    let group = group();
    let (primary, secondary) = (&group.members[0], &group.members[1]);
    let database = primary.database("blind");
    let grant = "GRANT SELECT ON performance_schema.replication_group_members TO";
    exec(&database, &[]).expect(77, "", grant);
    let findings = doctor(&database.url());
    let fix = findings.reports("cluster", "fail", "cannot see the members of the group");
    // The fix works.
    primary.run(&fix);
    let holder = Holder::on(&database, &[]);
    exec(&database, &["-n"]).expect(75, "", "init is held by");
    assert_eq!(holder.end().status, Some(3));
    let findings = doctor(&database.url());
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
    for statement in [
        "STOP GROUP_REPLICATION",
        "SET GLOBAL super_read_only=OFF",
        "SET GLOBAL read_only=OFF",
    ] {
        first.run(statement);
    }
    // The member accepts writes again, so only the check of the member refuses the renewals.
    let outcome = holder.running.wait();
    outcome.expect(76, "", "not an ONLINE member");
    let before = value(first, "SELECT @@gtid_executed");
    let reason = "OFFLINE and not an ONLINE member";
    is_refused(&database, reason, "use an ONLINE member");
    let after = value(first, "SELECT @@gtid_executed");
    assert_eq!(before, after, "dlock has written outside the group");
    first.run("START GROUP_REPLICATION");
    group.wait_healthy();

    // Another member is the primary now.
    let primary = "SELECT member_port FROM performance_schema.replication_group_members WHERE member_role='PRIMARY'";
    let primary = value(second, primary).expect("the group has a primary");
    let hosts = [format!("127.0.0.1:{primary}"), host(first.port())];
    let holder = Holder::start(dlock(&database, &hosts, &["exec"]), &["-v", "--ttl", "12s"]);
    let waiter = waiter(&database, &hosts);
    let uuid = server_uuid(first);
    first.run(format!("DO group_replication_set_as_primary('{uuid}')"));
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
    eventually("the primary has no majority", || {
        let lost = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                    WHERE member_state='UNREACHABLE'";
        value(primary, lost).as_deref() == Some("2")
    });
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
    doctor(&there.url()).reports("cluster", "warn", "every member accepts writes");
    assert_eq!(holder.end().status, Some(3));
    let queue = Queue::of(database, "12s");
    are_served_in_order(queue, &group.members, || group.wait_applied());
    let uuid = server_uuid(first);
    let back = format!("DO group_replication_switch_to_single_primary_mode('{uuid}')");
    first.run(&back);
    group.wait_healthy();
}
