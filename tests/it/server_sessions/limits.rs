//! Sessions that dlock cannot find, or cannot end.

use mysql::prelude::Queryable;
use testkit::on_each_flavour;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, shared};

use super::scene::Scene;

/// Creates a second account with all rights on `database`. Returns its name.
pub(super) fn second_account(database: &Database) -> String {
    let user = format!("x_{}", database.user);
    let Database { name, password, .. } = database;
    let pattern = name.replace('_', "\\_");
    let mut admin = database.admin_conn();
    for statement in [
        format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
        format!("GRANT ALL ON `{pattern}`.* TO '{user}'@'%'"),
    ] {
        admin.query_drop(statement).expect("root has the privilege");
    }
    user
}

/// Returns a scene whose client uses a second account. dlock's account has `privilege`, unless it is empty.
fn with_second_account(flavour: Flavour, privilege: &str) -> Scene {
    let database = shared(flavour).database("accounts");
    let user = second_account(&database);
    let port = database.port;
    let scene = Scene::with_client(flavour, database, &user, port);
    if !privilege.is_empty() {
        let user = &scene.database.user;
        scene.execute(&format!("GRANT {privilege} ON *.* TO '{user}'@'%'"));
    }
    scene
}

on_each_flavour!(a_session_that_may_not_be_killed_is_named_and_awaited);
fn a_session_that_may_not_be_killed_is_named_and_awaited(flavour: Flavour) {
    let mut scene = with_second_account(flavour, "PROCESS");
    let (holder, client) = scene.start(&["--ttl", "2s"]);
    scene.wait_until_noted();
    client.kill();
    holder.wait_for_output("cannot be ended: dlock's account may not kill it");
    let other = format!("of account x_{} from ", scene.database.user);
    assert!(holder.stderr_so_far().contains(&other), "{flavour}");
    scene
        .next(&["--wait", "3s"])
        .run()
        .expect(75, "", "init is held by");

    // The first signal ends the wait. The record still contains the session, so the next contender also waits.
    holder.signal("TERM");
    holder.wait().expect(137, "", "a signal ended the wait");
    assert!(scene.is_noted(), "{flavour}");
    let next = scene.next(&["--wait", "1s"]).run();
    next.expect(
        75,
        "",
        "which an earlier run of init left on the server, has not ended",
    );
    assert!(scene.is_noted(), "{flavour}");
    let next = scene.next(&[]).start();
    next.wait_for_output("cannot be ended: dlock's account may not kill it");
    scene.unlock();
    next.wait()
        .expect(0, "0 statements\n", "waiting until it ends");
}

#[test]
fn an_account_with_the_privileges_ends_the_sessions_of_another_account() {
    for flavour in Flavour::ALL {
        let privileges = match flavour {
            Flavour::MariaDb => "PROCESS, CONNECTION ADMIN",
            Flavour::MySql => "PROCESS, CONNECTION_ADMIN",
        };
        let scene = with_second_account(flavour, privileges);
        let (holder, client) = scene.start(&[]);
        scene.wait_until_noted();
        client.kill();
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(137, "", super::ENDED);
    }
}

#[test]
fn a_contender_waits_for_a_session_that_its_account_may_not_see() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::new(flavour);
        let other = second_account(&scene.database);
        let (holder, client) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        holder.crash();
        drop((holder, client));
        let url = scene.database.url();
        let url = url.replace(
            &format!("//{}:", scene.database.user),
            &format!("//{other}:"),
        );
        let next = scene.next(&[]).env("DLOCK_URL", url).start();
        next.wait_for_output("(not visible to dlock's account), which an earlier run");
        next.wait_for_output("cannot be ended: dlock's account may not kill it");
        assert!(scene.is_noted(), "{flavour}");
        scene.unlock();
        next.wait()
            .expect(0, "0 statements\n", "waiting until it ends");
        assert!(!scene.is_noted(), "{flavour}");
    }
}

#[test]
fn a_session_that_is_not_visible_is_reported_while_the_command_runs() {
    for flavour in Flavour::ALL {
        let scene = with_second_account(flavour, "");
        let (holder, client) = scene.start(&["--ttl", "2s"]);
        holder.wait_for_output("dlock doctor --session-user USER shows the missing privilege");
        client.kill();
        holder.wait().expect(137, "", "will not be ended");
        assert_eq!(scene.statements(), 1, "{flavour}");
    }
}

#[test]
fn a_proxy_is_detected_and_no_session_is_noted() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("proxied");
        let proxy = Proxy::to(database.port);
        let user = database.user.clone();
        let scene = Scene::with_client(flavour, database, &user, proxy.port());
        let url = scene.database.url_through(proxy.port());
        let (holder, client) = scene.start_through(&url, &["--ttl", "2s"]);
        holder.wait_for_output("a proxy or a router changes the addresses of the connections");
        assert!(!scene.is_noted(), "{flavour}");
        client.kill();
        holder.wait().expect(137, "", "will not be ended");
    }
}

#[test]
fn the_session_of_a_client_on_the_unix_socket_is_ended_on_mysql() {
    let scene = Scene::on_socket(Flavour::MySql);
    let (holder, client) = scene.start(&[]);
    scene.wait_until_noted();
    client.kill();
    let outcome = holder.wait();
    assert_eq!(scene.statements(), 0, "{outcome:#?}");
    outcome.expect(137, "", super::ENDED);
}

#[test]
fn dlock_on_the_unix_socket_ends_the_session_of_a_client_on_tcp() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let url = scene.database.socket_url();
        let (holder, client) = scene.start_through(&url, &[]);
        scene.wait_until_noted();
        client.kill();
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(137, "", super::ENDED);
    }
}
