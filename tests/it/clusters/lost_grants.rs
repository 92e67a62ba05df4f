//! Tests of a holder whose grant the database has lost, because a replica without the grant has replaced the server.

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::clusters::{Galera, galera};
use testkit::command::{Stage, write_message};
use testkit::holder::{Holder, is_free, steal, token, wait_renewals};
use testkit::proxy::{AcceptMode, Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, Series, Server, shared};

use crate::faults::on_each;
use crate::old_replica::{copy, second};

const LOST: &str = "the database has lost";

/// Text that a holder prints when it has written its grant again.
const AGAIN: &str = "init is renewed again after";

const TTL: [&str; 2] = ["--ttl", "6s"];

/// A server, an older replica of it, and a proxy that leads to the server until the fail-over.
struct Scene<'a> {
    database: Database,
    second: &'a Server,
    proxy: Proxy,
}

impl<'a> Scene<'a> {
    fn new(flavour: Flavour) -> Self {
        Self::on(shared(flavour), second(flavour))
    }

    fn on(server: &Server, second: &'a Server) -> Self {
        Self {
            second,
            proxy: Proxy::to(server.port()),
            database: server.database("lost"),
        }
    }

    /// Runs dlock once, so that the record exists and is free, and copies the tables to the second server.
    #[track_caller]
    fn replica(&self, options: &[&str]) -> Database {
        let exec = self.exec().args(options).args(["--", "true"]);
        exec.run().exited(0);
        copy(&self.database, self.second)
    }

    fn exec(&self) -> Dlock {
        Dlock::through(&self.database, self.proxy.port(), ["exec", "-a", "init"])
    }

    #[track_caller]
    fn holder(&self, options: &[&str]) -> Holder {
        Holder::through(&self.database, self.proxy.port(), options)
    }

    #[track_caller]
    fn waiter(&self) -> Running {
        let waiter = self.exec().args(TTL).args(["--", "echo", "ran"]).start();
        waiter.wait_for_output("init is held by");
        waiter
    }

    fn fail_over(&self) {
        self.proxy.retarget(self.second.port());
        self.proxy.reset();
    }
}

fn on_each_scene(test: impl Fn(&Scene) + Sync) {
    on_each(|flavour| test(&Scene::new(flavour)));
}

/// Fails over to `replica`. Asserts that `holder` writes its grant to `replica`, and renews the lease there. Returns the token.
#[track_caller]
fn is_written_again(scene: &Scene, holder: &Holder, replica: &Database) -> u64 {
    let granted = token(&scene.database);
    scene.fail_over();
    holder.running.wait_for_output(AGAIN);
    assert!(!is_free(replica), "the record contains the holder");
    assert_eq!(token(replica), granted, "the holder keeps its token");
    wait_renewals(replica, 1);
    granted
}

#[test]
fn a_holder_writes_a_lost_grant_again_and_continues() {
    on_each_scene(|scene| {
        let replica = scene.replica(&["--fence"]);
        let holder = scene.holder(&TTL);
        let waiter = scene.waiter();
        let granted = is_written_again(scene, &holder, &replica);
        let fence: u64 = replica.value("SELECT token FROM dlock_fence");
        assert_eq!(fence, granted, "the fence is advanced again");
        holder.end().expect(3, "", LOST);
        waiter.wait().expect(0, "ran\n", "init is held by");
        assert!(token(&replica) > granted);
    });
}

#[test]
fn a_holder_writes_its_grant_to_a_database_without_a_record_or_with_a_minimum_hold() {
    on_each(|flavour| {
        for has_record in [false, true] {
            let scene = Scene::new(flavour);
            let replica = if has_record {
                let replica = scene.replica(&["--min-hold", "1h"]);
                let free = "UPDATE dlock_lock SET owner_id=NULL,min_hold=0";
                scene.database.run(free);
                replica
            } else {
                scene.database.set_up();
                copy(&scene.database, scene.second)
            };
            let holder = scene.holder(&TTL);
            let granted = is_written_again(&scene, &holder, &replica);
            holder.end().expect(3, "", LOST);
            assert!(is_free(&replica), "the lease is released");
            assert_eq!(token(&replica), granted);
        }
    });
}

#[test]
fn all_holders_in_slots_write_their_lost_grants_again_and_continue() {
    on_each_scene(|scene| {
        let replica = scene.replica(&["--shared"]);
        let holders = [(); 3].map(|()| scene.holder(&["--shared", "--ttl", "6s"]));
        let held = slots(&scene.database);
        assert_eq!(held.len(), 3);
        scene.fail_over();
        for holder in &holders {
            holder.running.wait_for_output(AGAIN);
        }
        assert_eq!(slots(&replica), held, "slots and tokens are the same");
        let waiter = scene.waiter();
        for holder in holders {
            holder.end().expect(3, "", LOST);
        }
        waiter.wait().expect(0, "ran\n", "init is held by");
        let highest = held.iter().map(|(_, token)| *token).max();
        assert!(Some(token(&replica)) > highest);
    });
}

/// Returns the numbers of the slots that are held, each with the token.
fn slots(database: &Database) -> Vec<(u32, u64)> {
    database.rows("SELECT slot,token FROM dlock_slot WHERE owner_id IS NOT NULL ORDER BY slot")
}

#[test]
fn a_waiter_names_the_fail_over_and_waits_until_a_lost_lease_has_ended() {
    on_each_scene(|scene| {
        scene.replica(&[]);
        let holder = scene.holder(&TTL);
        let waiter = scene.waiter();
        holder.running.crash();
        scene.fail_over();
        let outcome = waiter.wait();
        for text in [
            "init may still be held: another server responds",
            "as after a fail-over to an older replica or a restored backup",
        ] {
            outcome.expect(0, "ran\n", text);
        }
    });
}

/// The record of the second cluster is as the waiter has read it, except that it is free: another process may have been
/// granted the lease since then.
#[test]
fn a_waiter_expects_lost_grants_if_another_galera_cluster_has_the_same_name() {
    let cluster = galera();
    let position = "--wsrep-start-position=00000000-0000-0000-0000-000000000000:-1";
    let other = Server::start(Series::Galera, &["--wsrep-new-cluster", position]);
    let first = &cluster.nodes[0];
    let name = |server: &Server| server.value::<String>("SELECT @@wsrep_cluster_name");
    assert_eq!(name(first), name(&other));
    let state = "wsrep_cluster_state_uuid";
    assert_ne!(Galera::status(first, state), Galera::status(&other, state));
    let scene = Scene::on(first, &other);
    let holder = Holder::on(&scene.database, &TTL);
    // A lost lease could last for the longest ttl that the waiter knows.
    let waiter = scene.exec().args(["--ttl", "1h", "--wait", "15s"]);
    let waiter = waiter.args(["--", "echo", "ran"]).start();
    waiter.wait_for_output("init is held by");
    let replica = copy(&scene.database, &other);
    replica.run("UPDATE dlock_lock SET owner_id=NULL");
    scene.fail_over();
    let message = "init may still be held: another server responds";
    waiter.wait().expect(75, "", message);
    assert_eq!(holder.end().status, Some(3));
}

#[test]
fn a_holder_stops_if_the_older_database_has_another_grant_or_is_paused() {
    on_each(|flavour| {
        let stolen = Scene::new(flavour);
        let replica = stolen.replica(&[]);
        let thief = token(&replica) + 1;
        let holder = stolen.holder(&TTL);
        steal(&replica);
        stolen.fail_over();
        let outcome = holder.running.wait();
        let message = "lost init: the database has lost the grant, as after";
        outcome.expect(76, "", message);
        outcome.expect(76, "", "and init is held by a thief");
        assert_eq!(token(&replica), thief, "the record is unchanged");

        let paused = Scene::new(flavour);
        let replica = paused.replica(&[]);
        replica.run("UPDATE dlock_lock SET paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR");
        let holder = paused.holder(&TTL);
        paused.fail_over();
        let message = "as after a fail-over to an older replica";
        holder.running.wait().expect(76, "", message);
        assert!(is_free(&replica), "the record is unchanged");

        let replaced = Scene::new(flavour);
        let replica = replaced.replica(&[]);
        let holder = replaced.holder(&TTL);
        let other = Holder::on(&replica, &TTL);
        replaced.fail_over();
        let outcome = holder.running.wait();
        outcome.expect(76, "", "although the lease of this process had not ended");
        outcome.expect(76, "", "a restored backup");
        other.end().exited(3);
    });
}

#[test]
fn a_command_that_ends_before_its_lost_grant_is_noticed_gives_76() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let replica = scene.replica(&[]);
        let before = token(&replica);
        let holder = scene.holder(&["--ttl", "1h", "-v"]);
        // No connection can be opened before the command has ended, so that no renewal can notice the loss.
        scene.proxy.door(AcceptMode::Refused);
        scene.fail_over();
        holder.running.wait_for_output("cannot renew");
        write_message(&holder.go(), "on");
        holder.running.wait_for_output("the command exited with 3");
        scene.proxy.door(AcceptMode::Open);
        let outcome = holder.running.wait();
        let message = "the database has lost the grant of init before the command had ended";
        outcome.expect(76, "", message);
        assert_eq!(token(&replica), before);

        for options in [&[][..], &["--once=k"]] {
            let scene = Scene::new(flavour);
            let replica = scene.replica(&[]);
            let stage = Stage::new();
            let go = stage.fifo("go");
            let holder = scene.exec().args(["-v", "--ttl", "1h"]).args(options);
            let holder = holder.args(["--", "cat"]).arg(&go).start();
            eventually("the lock is held", || !is_free(&scene.database));
            let other = Holder::on(&replica, options);
            // The server is lost when the command ends, so the first release has no response.
            scene.proxy.retarget(scene.second.port());
            let release = scene.proxy.next(Kind::Release, Fault::Reset);
            write_message(&go, "done");
            release.wait();
            let outcome = holder.wait();
            outcome.expect(76, "done\n", "init was lost before the command had ended");
            assert_eq!(other.end().status, Some(3));
        }
    });
}
