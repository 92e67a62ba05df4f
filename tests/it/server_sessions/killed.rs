//! dlock itself is killed, and its monitor ends the lease. The ttl is so long that no lease expires during a test.

use testkit::on_each_flavour;
use testkit::servers::Flavour;

use super::scene::Scene;

const LONG: [&str; 2] = ["--ttl", "10m"];

#[test]
fn lease_is_released_when_command_and_statement_have_ended() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let (holder, _) = scene.start(&LONG);
        scene.wait_until_noted();
        let waiter = scene.next(&LONG).start();
        scene.wait_for_waiters(1);
        holder.signal("KILL");
        let next = waiter.wait();
        next.expect(0, "0 statements\n", "acquired init in");
        let history = scene.dlock(["history", "init"]).run().stdout;
        let ended = "SIGKILL, dlock was killed, ended 1 session ";
        assert!(history.contains(ended), "{flavour}: {history}");
        let json = scene.dlock(["history", "init", "--json"]).run().stdout;
        let facts = r#""outcome":"killed","code":9,"sessions_ended":1"#;
        assert!(json.contains(facts), "{flavour}: {json}");
        assert!(json.contains(r#""dlock_status":137"#), "{flavour}: {json}");
    }
}

on_each_flavour!(with_wait_the_lease_is_kept_until_the_statement_has_ended_by_itself);
fn with_wait_the_lease_is_kept_until_the_statement_has_ended_by_itself(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "10m", "--server-sessions", "wait"]);
    scene.wait_until_noted();
    let waiter = scene.next(&LONG).start();
    scene.wait_for_waiters(1);
    holder.signal("KILL");
    holder.wait();
    let busy = scene.next(&["--wait", "2s"]).run();
    busy.expect(75, "", "init is held by");
    assert_eq!(scene.statements(), 1, "{flavour}");
    scene.unlock();
    waiter
        .wait()
        .expect(0, "0 statements\n", "acquired init in");
}

#[test]
fn with_ignore_the_lease_is_released_and_the_statement_continues() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let ignore = ["--ttl", "10m", "--server-sessions", "ignore"];
        let (holder, _) = scene.start(&ignore);
        holder.signal("KILL");
        // Without -q, it can say that the killed holder's lease is not released yet.
        let next = scene.next(&ignore).arg("-q").run();
        next.expect(0, "1 statements\n", "");
    }
}

#[test]
fn lease_stays_held_for_min_hold() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let (holder, _) = scene.start(&["--ttl", "10m", "--once-per", "1h", "--min-hold", "1h"]);
        scene.wait_until_noted();
        holder.signal("KILL");
        scene.wait_for_runs(1);
        let busy = scene.next(&["--nonblock"]).run();
        busy.expect(75, "", "--min-hold");
    }
}
