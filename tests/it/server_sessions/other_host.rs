//! Sessions on a server to which the contender is not connected.

use testkit::cli_runner::eventually;
use testkit::clusters::{galera, group, run};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Flavour, shared};

use super::scene::Scene;
use crate::hosts::{host, url};

#[test]
fn statement_on_another_node_ends_only_if_a_host_of_the_contender_leads_to_that_node() {
    let cluster = galera();
    let first = &cluster.nodes[0];
    let [here, there] = [first, &cluster.nodes[1]].map(|node| host(node.port()));
    for (hosts, statements, message) in [
        (
            &[there.clone(), here.clone()][..],
            "0 statements\n",
            "ended 1 session that an earlier run of init left on the server",
        ),
        (
            std::slice::from_ref(&there),
            "1 statements\n",
            "cannot be ended from this server",
        ),
    ] {
        let database = first.database("sessions");
        let (user, port) = (database.user.clone(), database.port);
        let scene = Scene::with_client(Flavour::MariaDb, database, &user, port);
        let (holder, _) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        holder.crash();
        let contender = scene
            .next(&[])
            .env("DLOCK_URL", url(&scene.database, hosts));
        let outcome = contender.run();
        outcome.expect(0, statements, message);
        // The contender has written to the second node.
        eventually("the note is removed", || !scene.is_noted());
    }
}

#[test]
fn a_contender_waits_for_a_host_without_a_free_connection_that_may_have_the_sessions() {
    let cluster = galera();
    let first = &cluster.nodes[0];
    let to_first = Proxy::to(first.port());
    let hosts = [to_first.port(), cluster.nodes[1].port()].map(host);
    let database = first.database("sessions");
    let (user, port) = (database.user.clone(), database.port);
    let scene = Scene::with_client(Flavour::MariaDb, database, &user, port);
    let (holder, _) = scene.start(&["--ttl", "2s"]);
    scene.wait_until_noted();
    holder.crash();
    to_first.door(AcceptMode::Full);
    let contender = scene.next(&[]);
    let contender = contender.env("DLOCK_URL", url(&scene.database, &hosts));
    let contender = contender.start();
    contender.wait_for_output("cannot look for the sessions");
    to_first.door(AcceptMode::Open);
    let message = "ended 1 session that an earlier run of init left on the server";
    contender.wait().expect(0, "0 statements\n", message);
    // The contender has written to the second node, if the first one had no free connection.
    eventually("the note is removed", || !scene.is_noted());
}

#[test]
fn statement_on_the_primary_of_a_group_ends_before_the_next_command() {
    let group = group();
    let primary = &group.members[0];
    let database = primary.database("sessions");
    let (user, port) = (database.user.clone(), database.port);
    run(
        primary,
        &format!("GRANT SELECT ON performance_schema.replication_group_members TO '{user}'@'%'"),
    );
    let scene = Scene::with_client(Flavour::MySql, database, &user, port);
    let (holder, _) = scene.start(&["--ttl", "2s"]);
    scene.wait_until_noted();
    holder.crash();
    let outcome = scene.next(&[]).run();
    let message = "ended 1 session that an earlier run of init left on the server";
    outcome.expect(0, "0 statements\n", message);
    assert!(!scene.is_noted(), "{outcome:#?}");
}

on_each_flavour!(a_connection_of_the_command_to_another_host_is_neither_noted_nor_reported);
fn a_connection_of_the_command_to_another_host_is_neither_noted_nor_reported(flavour: Flavour) {
    let database = shared(flavour).database("sessions");
    let other = Proxy::to(database.port);
    let user = database.user.clone();
    let scene = Scene::with_client(flavour, database, &user, other.port());
    let hosts = [scene.database.port, other.port()].map(host);
    let (holder, client) = scene.start_through(&url(&scene.database, &hosts), &["--ttl", "2s"]);
    // dlock reports a connection without a session after ten looks.
    scene.wait_for_renewals(14);
    assert!(!scene.is_noted(), "{flavour}");
    client.kill();
    let outcome = holder.wait();
    assert_eq!(outcome.status, Some(137), "{flavour}: {outcome:#?}");
    assert!(
        !outcome.stderr.contains("will not be ended"),
        "{outcome:#?}"
    );
}
