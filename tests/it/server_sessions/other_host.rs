//! Sessions on a server to which the contender is not connected.

use testkit::cli_runner::eventually;
use testkit::clusters::{galera, group};
use testkit::command::signal;
use testkit::holder::wait_renewals;
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Flavour, shared};

use super::scene::{COMMAND, Scene};
use super::{ENDED_EARLIER, SHORT};
use crate::hosts::{host, url};

#[test]
fn statement_on_another_node_ends_only_if_a_host_of_the_contender_leads_to_that_node() {
    let cluster = galera();
    let [first, second, ..] = &cluster.nodes[..] else {
        panic!("a cluster has three nodes");
    };
    let to_first = Proxy::to(first.port());
    let hosts = [to_first.port(), second.port()].map(host);
    let crashed = || {
        let scene = Scene::on(Flavour::MariaDb, first.database("sessions"));
        scene.crash(&SHORT);
        scene
    };
    let contender = |scene: &Scene, hosts| {
        let next = scene.next(&[]);
        next.env("DLOCK_URL", url(&scene.database, hosts)).start()
    };

    // The contender waits for a host without a free connection, because this host may have the sessions.
    let scene = crashed();
    to_first.door(AcceptMode::Full);
    let next = contender(&scene, &hosts);
    next.wait_for_output("cannot look for the sessions");
    to_first.door(AcceptMode::Open);
    next.wait().expect(0, "0 statements\n", ENDED_EARLIER);
    // The contender may have written to the second node.
    eventually("the note is removed", || !scene.is_noted());

    let scene = crashed();
    let next = contender(&scene, &hosts[1..]);
    let message = "cannot be ended from this server";
    next.wait().expect(0, "1 statements\n", message);
    eventually("the note is removed", || !scene.is_noted());
}

#[test]
fn statement_on_the_primary_of_a_group_ends_before_the_next_command() {
    let group = group();
    let primary = &group.members[0];
    let database = primary.database("sessions");
    let user = &database.user;
    primary.run(format!(
        "GRANT SELECT ON performance_schema.replication_group_members TO '{user}'@'%'"
    ));
    let scene = Scene::on(Flavour::MySql, database);
    scene.crash(&SHORT);
    let outcome = scene.next(&[]).expect(0, "0 statements\n", ENDED_EARLIER);
    assert!(!scene.is_noted(), "{outcome:#?}");
}

on_each_flavour!(a_connection_of_the_command_to_another_host_is_neither_noted_nor_reported);
fn a_connection_of_the_command_to_another_host_is_neither_noted_nor_reported(flavour: Flavour) {
    let database = shared(flavour).database("sessions");
    let other = Proxy::to(database.port);
    let user = database.user.clone();
    let scene = Scene::with_client(flavour, database, &user, other.port());
    let hosts = [scene.database.port, other.port()].map(host);
    let exec = scene.exec().env("DLOCK_URL", url(&scene.database, &hosts));
    let (holder, client) = scene.start_script(exec.args(["--ttl", "6s"]), COMMAND);
    // dlock reports a connection without a session after ten looks.
    wait_renewals(&scene.database, 14);
    assert!(!scene.is_noted());
    signal(client, "KILL");
    let outcome = holder.wait().exited(137);
    let is_reported = outcome.stderr.contains("will not be ended");
    assert!(!is_reported, "{outcome:#?}");
}
