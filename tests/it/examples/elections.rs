//! Tests of the recipes for elections.

use std::fs;

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{read_message, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Flavour, fetched};

use super::{CONTROLLED, Host, path};

/// Returns a run of the leader's script on the machine `name`.
fn candidate(host: &Host, name: &str) -> Dlock {
    let script = path("elections/lead.sh").display().to_string();
    let url = host.database.url();
    let holder = format!("--holder={name}");
    let words = ["dlock", "exec", "app", &holder, "--", &script];
    host.starts(&[("DLOCK_URL", &*url), ("NAME", name)], words)
}

fn with_jobs(host: &Host) {
    for name in ["promote", "demote"] {
        host.job(name, r#"echo "${0##*/} $NAME" >> log"#);
    }
}

#[track_caller]
fn logs(host: &Host, lines: &[&str]) {
    eventually(&format!("{lines:?} in the log"), || host.log() == lines);
}

on_each_flavour!(each_leader_is_promoted_after_the_demotion_of_the_previous_one);
fn each_leader_is_promoted_after_the_demotion_of_the_previous_one(flavour: Flavour) {
    let host = &Host::on(flavour);
    with_jobs(host);
    let first = candidate(host, "A").start();
    logs(host, &["promote A"]);
    let second = candidate(host, "B").start();
    second.wait_for_output("you are next");
    first.signal("TERM");
    assert_eq!(first.wait().status, Some(143));
    logs(host, &["promote A", "demote A", "promote B"]);
    let operator = ["release", "app", "--yes"];
    Dlock::on(&host.database, operator)
        .run()
        .expect(0, "", "app");
    assert_eq!(second.wait().status, Some(76));
    assert_eq!(host.log()[3..], ["demote B"]);
}

on_each_flavour!(leader_that_cannot_be_promoted_is_demoted_and_the_next_one_leads);
fn leader_that_cannot_be_promoted_is_demoted_and_the_next_one_leads(flavour: Flavour) {
    let host = &Host::on(flavour);
    with_jobs(host);
    host.job(
        "promote",
        r#"echo "promote $NAME" >> log; [ "$NAME" != A ] || exit 3"#,
    );
    candidate(host, "A").run().expect(3, "", "");
    let second = candidate(host, "B").start();
    logs(host, &["promote A", "demote A", "promote B"]);
    second.signal("TERM");
    assert_eq!(second.wait().status, Some(143));
}

on_each_flavour!(follower_learns_of_each_leader_and_of_none);
fn follower_learns_of_each_leader_and_of_none(flavour: Flavour) {
    let host = &Host::on(flavour);
    host.job("promote", "");
    host.job("demote", "");
    host.job("use-leader", r#"echo "leader:$1" >> log"#);
    let script = path("elections/follow.sh").display().to_string();
    let url = host.database.url();
    let follow = || host.starts(&[("DLOCK_URL", &*url)], [&*script]).start();
    let follower: Running = follow();
    logs(host, &["leader:"]);
    let leader = candidate(host, "10.0.0.7:80 a").start();
    logs(host, &["leader:", "leader:10.0.0.7:80 a"]);
    leader.signal("TERM");
    leader.wait();
    logs(host, &["leader:", "leader:10.0.0.7:80 a", "leader:"]);
    follower.crash();
}

on_each_flavour!(python_worker_works_alone_and_stops_in_time);
fn python_worker_works_alone_and_stops_in_time(flavour: Flavour) {
    let host = &Host::on(flavour);
    host.job("step", CONTROLLED);
    let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
    for (from, to) in [
        ("elections/worker.py", "worker.py"),
        ("clients/dlock.py", "dlock.py"),
    ] {
        fs::copy(path(from), host.stage.path(to)).expect("the folder is writable");
    }
    let url = host.database.url();
    let python = fetched("python3").display().to_string();
    let worker = || {
        let words = [&*python, "-B", "worker.py", "--ttl=6s", "--grace=1s"];
        host.starts(&[("DLOCK_URL", &*url)], words).start()
    };
    let first = worker();
    read_message(&ready);
    let second = worker();
    eventually("the second worker waits", || {
        let status = Dlock::on(&host.database, ["status", "worker", "--json"]).run();
        status.stdout.contains(r#""position":1"#)
    });
    write_message(&go, "1");
    read_message(&ready);
    let operator = ["release", "worker", "--yes"];
    Dlock::on(&host.database, operator)
        .run()
        .expect(0, "", "worker");
    // The first worker finishes its step, and begins no other one.
    write_message(&go, "2");
    let outcome = first.wait();
    assert_eq!(outcome.status, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("worker: the lock was lost"),
        "{outcome:?}"
    );
    read_message(&ready);
    write_message(&go, "3");
    logs(host, &["step 1", "step 2", "step 3"]);
    second.crash();
}
