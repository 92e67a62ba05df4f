//! dlock itself is killed, and its monitor ends the lease. The ttl is so long that no lease expires during a test.

use testkit::on_each_flavour;
use testkit::servers::Flavour;

use super::scene::Scene;

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
