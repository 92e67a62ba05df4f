//! dlock itself is killed, and its monitor ends the lease. The ttl is so long that no lease expires during a test. The last
//! test is about the process of `dlock hold --pid`, which dlock has not started.

use testkit::command::{is_alive, signal};
use testkit::on_each_flavour;
use testkit::servers::Flavour;

use super::scene::{Scene, Ward};

const LONG: [&str; 2] = ["--ttl", "10m"];

on_each_flavour!(lease_is_released_when_command_and_statement_have_ended);
fn lease_is_released_when_command_and_statement_have_ended(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let (holder, _) = scene.start(&LONG);
    let waiter = scene.next(&LONG).start();
    scene.database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    holder.signal("KILL");
    let next = waiter.wait();
    next.expect(0, "0 statements\n", "acquired init in");
    let ended = "SIGKILL, dlock was killed, ended 1 session ";
    scene.dlock(["history", "init"]).shows(ended);
    let json = scene.dlock(["history", "init", "--json"]).run().stdout;
    let facts = r#""outcome":"killed","code":9,"sessions_ended":1"#;
    assert!(json.contains(facts), "{json}");
    assert!(json.contains(r#""dlock_status":137"#), "{json}");

    // The monitor keeps the lease for --min-hold.
    let scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "10m", "--once-per", "1h", "--min-hold", "1h"]);
    holder.signal("KILL");
    scene.database.wait_until("COUNT(*)=1 FROM dlock_history");
    scene.next(&["--nonblock"]).expect(75, "", "--min-hold");
}

on_each_flavour!(with_wait_the_lease_is_kept_until_the_statement_has_ended);
fn with_wait_the_lease_is_kept_until_the_statement_has_ended(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "10m", "--server-sessions", "wait"]);
    let waiter = scene.next(&LONG).start();
    scene.database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    holder.wait_after("KILL");
    let busy = scene.next(&["--wait", "2s"]).run();
    busy.expect(75, "", "init is held by");
    assert_eq!(scene.statements(), 1);
    scene.unlock();
    let next = waiter.wait();
    next.expect(0, "0 statements\n", "acquired init in");
    assert!(scene.is_updated(), "the statement was killed");
}

on_each_flavour!(statement_of_a_process_has_ended_before_the_next_command_starts);
fn statement_of_a_process_has_ended_before_the_next_command_starts(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let ended_by = |end: &dyn Fn(&Ward)| {
        let ward = scene.start_ward();
        let next = scene.next(&[]).start_until("init is held by");
        end(&ward);
        next.wait().expect(0, "0 statements\n", "acquired init in");
        assert!(!is_alive(&ward.pid.to_string()));
        assert!(!scene.is_noted());
        ward.running
    };
    let killed = ended_by(&|ward| signal(ward.pid, "KILL"));
    killed.wait_for_output("ended 1 session that process ");
    ended_by(&|_| {
        let release = scene.dlock(["release", "init", "--yes", "--operator=ops"]);
        release.expect(0, "", "init is released");
    });
    // dlock is killed.
    ended_by(&|ward| signal(ward.holder, "KILL"));

    // The process goes on without the lock.
    let ward = scene.start_ward();
    signal(ward.holder, "TERM");
    scene.next(&["-q"]).expect(0, "1 statements\n", "");
    assert!(is_alive(&ward.pid.to_string()));
    assert!(!scene.is_noted());
    signal(ward.pid, "KILL");
}
