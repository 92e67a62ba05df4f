//! Tests of the recipes for elections.

use std::fs;

use testkit::cli_runner::{Dlock, eventually};
use testkit::servers::fetched;

use super::{CONTROLLED, Host, path};

/// Returns a run of the leader's script on the machine `name`.
fn candidate(host: &Host, name: &str) -> Dlock {
    let script = path("elections/lead.sh").display().to_string();
    let [variable, holder] = [format!("NAME={name}"), format!("--holder={name}")];
    let words = [&*variable, "dlock", "exec", "app", &holder, "--", &script];
    host.starts_with_url(&words)
}

#[track_caller]
fn logs(host: &Host, lines: &[&str]) {
    eventually(&format!("{lines:?} in the log"), || host.log() == lines);
}

#[test]
fn each_leader_is_promoted_after_the_demotion_of_the_previous_one() {
    let host = &Host::with_job("demote", r#"echo "demote $NAME" >> log"#);
    host.job(
        "promote",
        r#"echo "promote $NAME" >> log; [ "$NAME" != A ] || exit 3"#,
    );
    // A leader that cannot be promoted is demoted, and the next one leads.
    candidate(host, "A").expect(3, "", "");
    let second = candidate(host, "B").start();
    logs(host, &["promote A", "demote A", "promote B"]);
    let third = candidate(host, "C").start();
    third.wait_for_output("you are next");
    second.signal("TERM");
    assert_eq!(second.wait().status, Some(143));
    eventually("C is promoted", || host.log().len() == 5);
    assert_eq!(host.log()[3..], ["demote B", "promote C"]);
    let operator = host.dlock(&["release", "app", "--yes"]);
    operator.expect(0, "", "app");
    assert_eq!(third.wait().status, Some(76));
    assert_eq!(host.log()[5..], ["demote C"]);
}

#[test]
fn follower_learns_of_each_leader_and_of_none() {
    let host = &Host::of_this_test();
    host.job("promote", "");
    host.job("demote", "");
    host.job("use-leader", r#"echo "leader:$1" >> log"#);
    let follower = host.script("elections/follow.sh", &[]).start();
    logs(host, &["leader:"]);
    let leader = candidate(host, "10.0.0.7:80 a").start();
    logs(host, &["leader:", "leader:10.0.0.7:80 a"]);
    leader.signal("TERM");
    leader.wait();
    logs(host, &["leader:", "leader:10.0.0.7:80 a", "leader:"]);
    follower.crash();
}

#[test]
fn python_worker_works_alone_and_stops_in_time() {
    let host = &Host::with_job("step", CONTROLLED);
    for (from, to) in [
        ("elections/worker.py", "worker.py"),
        ("clients/dlock.py", "dlock.py"),
    ] {
        fs::copy(path(from), host.stage.path(to)).expect("the folder is writable");
    }
    let python = fetched("python3").display().to_string();
    let worker = || {
        // A holder learns of a release when it renews its lease, after a third of the ttl.
        let words = [&*python, "-B", "worker.py", "--ttl=15s", "--grace=1s"];
        host.starts_with_url(&words).start()
    };
    let first = worker();
    host.is_ready();
    let second = worker();
    host.database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    host.tell("go", "1");
    host.is_ready();
    let operator = host.dlock(&["release", "worker", "--yes"]);
    operator.expect(0, "", "worker");
    // The first worker finishes its step, and begins no other one.
    host.tell("go", "2");
    first.wait().expect(1, "", "worker: the lock was lost");
    host.is_ready();
    host.tell("go", "3");
    logs(host, &["step 1", "step 2", "step 3"]);
    second.crash();
}
