//! Tests of waiters: how long a waiter waits, which messages it prints, and how it exits.

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;

fn echo(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
}

#[test]
fn contender_that_does_not_wait_prints_the_holder() {
    let database = shared(Flavour::of_this_test()).database("waiting");
    let options = ["--holder", "the holder", "--note", "release 42"];
    let holder = Holder::on(&database, &options);
    let why = "init is held by the holder (token ";
    for (options, status, why) in [
        (&["-n"][..], 75, why),
        (&["--wait", "0"], 75, why),
        (&["--wait", "200ms"], 75, why),
        (&["--wait=0.2s", "-q"], 75, why),
        (&["-n", "-E", "7"], 7, why),
        (&["-n", "-E", "0"], 0, why),
        (&["-n", "-E", "0", "-q"], 0, ""),
    ] {
        let outcome = echo(&database, options).expect(status, "", why);
        let has_note = outcome.stderr.contains("release 42");
        assert_eq!(has_note, !why.is_empty(), "{outcome:?}");
    }
    assert_eq!(holder.end().status, Some(3));
    echo(&database, &["-n"]).expect(0, "ran\n", "");
}

on_each_flavour!(new_contender_takes_over_an_expired_lease_immediately);
fn new_contender_takes_over_an_expired_lease_immediately(flavour: Flavour) {
    let database = shared(flavour).database("waiting");
    let holder = Holder::on(&database, &["--ttl=5m"]);
    holder.running.crash();
    let mut admin = database.admin_conn();
    let user = &database.user;
    let condition = format!("COUNT(*)=0 FROM information_schema.processlist WHERE user='{user}'");
    admin.wait_until(condition);
    // The lease has not expired.
    let contender = || echo(&database, &["-n"]).run();
    contender().expect(75, "", "init is held by");
    admin.run("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 SECOND");
    contender().expect(0, "ran\n", "");
}
