//! Sessions that dlock cannot find, or cannot end.

use testkit::cli_runner::Running;
use testkit::command::signal;
use testkit::on_each_flavour;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, shared};

use super::scene::{COMMAND, Scene};

/// Creates a second account with all rights on `database`. Returns its name.
pub(super) fn second_account(database: &Database) -> String {
    let account = database.account("x");
    account.grant(&format!("ALL ON `{}`.*", account.name));
    account.user
}

/// Returns a scene whose client uses a second account.
fn with_second_account(flavour: Flavour) -> Scene {
    let database = shared(flavour).database("accounts");
    let user = second_account(&database);
    let port = database.port;
    Scene::with_client(flavour, database, &user, port)
}

on_each_flavour!(sessions_of_another_account_are_ended_or_awaited_depending_on_the_privileges);
fn sessions_of_another_account_are_ended_or_awaited_depending_on_the_privileges(flavour: Flavour) {
    const DENIED: &str = "cannot be ended: dlock's account may not kill it";
    let mut scene = with_second_account(flavour);
    let own = scene.database.user.clone();
    let kill = match flavour {
        Flavour::MariaDb => "CONNECTION ADMIN",
        Flavour::MySql => "CONNECTION_ADMIN",
    };
    scene
        .database
        .run(format!("GRANT PROCESS, {kill} ON *.* TO '{own}'@'%'"));
    let (holder, client) = scene.start(&[]);
    signal(client, "KILL");
    let outcome = holder.wait();
    assert_eq!(scene.statements(), 0, "{outcome:#?}");
    outcome.expect(137, "", super::ENDED);

    scene
        .database
        .run(format!("REVOKE {kill} ON *.* FROM '{own}'@'%'"));
    let (holder, client) = scene.start(&["--ttl", "6s"]);
    signal(client, "KILL");
    holder.wait_for_output(DENIED);
    let other = format!("of account x_{own} from ");
    assert!(holder.stderr_so_far().contains(&other), "{other}");
    let busy = scene.next(&["--wait", "1s"]).run();
    busy.expect(75, "", "init is held by");

    // The first signal ends the wait. The record still contains the session, so the next contender also waits.
    (holder.wait_after("TERM")).expect(137, "", "a signal ended the wait");
    assert!(scene.is_noted());
    let next = scene.next(&["--wait", "1s"]).run();
    let left = "which an earlier run of init left on the server, has not ended";
    next.expect(75, "", left);
    assert!(scene.is_noted());

    // The next contender does not see the session.
    scene
        .database
        .run(format!("REVOKE PROCESS ON *.* FROM '{own}'@'%'"));
    let next = scene.next(&[]).start();
    next.wait_for_output("(not visible to dlock's account), which an earlier run");
    next.wait_for_output(DENIED);
    assert!(scene.is_noted());
    scene.unlock();
    let next = next.wait();
    next.expect(0, "0 statements\n", "waiting until it ends");
    assert!(!scene.is_noted());
}

on_each_flavour!(sessions_that_dlock_cannot_find_are_reported_while_the_command_runs);
fn sessions_that_dlock_cannot_find_are_reported_while_the_command_runs(flavour: Flavour) {
    let database = shared(flavour).database("proxied");
    let proxied = database.through(Proxy::to(database.port).port());
    let privilege = "dlock doctor --session-user USER shows the missing privilege";
    let address = "a proxy or a router changes the addresses of the connections";
    for (scene, message) in [
        (with_second_account(flavour), privilege),
        (Scene::on(flavour, proxied), address),
    ] {
        let exec = scene.exec().args(["--ttl", "6s"]);
        let (holder, client) = scene.start_script(exec, COMMAND);
        holder.wait_for_output(message);
        assert!(!scene.is_noted(), "{message}");
        signal(client, "KILL");
        holder.wait().expect(137, "", "will not be ended");
        assert_eq!(scene.statements(), 1, "{message}");
    }
}

on_each_flavour!(a_session_is_ended_if_dlock_or_its_client_uses_the_unix_socket);
fn a_session_is_ended_if_dlock_or_its_client_uses_the_unix_socket(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let is_ended = |(holder, client): (Running, u32)| {
        signal(client, "KILL");
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{outcome:#?}");
        outcome.expect(137, "", super::ENDED);
    };
    let exec = scene.exec().env("DLOCK_URL", scene.database.socket_url());
    is_ended(scene.start_noted(exec, COMMAND));
    // MariaDB does not show the process of a client on the socket.
    if flavour == Flavour::MySql {
        let socket = shared(flavour).socket().display();
        scene.connect_client_to(&format!("socket={socket}"));
        is_ended(scene.start(&[]));
    }
}
