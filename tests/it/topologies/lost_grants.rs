//! Tests of a holder whose grant the database has lost, because a replica without the grant has replaced the server.

use std::sync::OnceLock;
use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::clusters::{Galera, galera, value};
use testkit::command::{Stage, write_message};
use testkit::holder::{Holder, is_free, renewals, steal, token};
use testkit::proxy::{AcceptMode, Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, Series, Server, shared};

use crate::old_replica::copy;

/// Text that a holder prints when its database has lost the grant.
const LOST: &str = "the database has lost";

/// Text that a holder prints when it has written its grant again.
const AGAIN: &str = "init is renewed again after";

/// A server, an older replica of it, and a proxy that leads to the server until the fail-over.
struct Scene<'a> {
    flavour: Flavour,
    database: Database,
    second: &'a Server,
    proxy: Proxy,
}

impl Scene<'static> {
    fn new(flavour: Flavour) -> Self {
        static MARIADB: OnceLock<Server> = OnceLock::new();
        static MYSQL: OnceLock<Server> = OnceLock::new();
        let second = match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql => &MYSQL,
        };
        let database = shared(flavour).database("lost");
        Self {
            flavour,
            second: second.get_or_init(|| Server::start(flavour, &[])),
            proxy: Proxy::to(database.port),
            database,
        }
    }
}

impl Scene<'_> {
    /// Runs dlock once, so that the record exists and is free.
    #[track_caller]
    fn run_once(&self, options: &[&str]) {
        let outcome = self.exec().args(options).args(["--", "true"]).run();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    }

    fn exec(&self) -> Dlock {
        Dlock::new(["exec", "-a", "init"])
            .env("DLOCK_URL", self.database.url_through(self.proxy.port()))
    }

    /// Starts a holder through the proxy, and returns once its command runs.
    #[track_caller]
    fn holder(&self, options: &[&str]) -> Holder {
        let url = self.database.url_through(self.proxy.port());
        Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), options)
    }

    /// Starts a contender that waits behind the holder.
    #[track_caller]
    fn waiter(&self) -> Running {
        let waiter = self
            .exec()
            .args(["--ttl", "6s", "--", "echo", "ran"])
            .start();
        waiter.wait_for_output("init is held by");
        waiter
    }

    /// Replaces the server by the second one.
    fn fail_over(&self) {
        self.proxy.retarget(self.second.port());
        self.proxy.reset();
    }
}

fn on_both(scenario: impl Fn(&Scene) + Sync) {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            let scenario = &scenario;
            scope.spawn(move || scenario(&Scene::new(flavour)));
        }
    });
}

/// Waits until `holder` has written its grant to `replica`, and returns the outcome of the holder.
#[track_caller]
fn reasserted(holder: Holder, replica: &Database, granted: u64) -> Outcome {
    holder.running.wait_for_output(AGAIN);
    assert!(!is_free(replica), "the record contains the holder");
    assert_eq!(token(replica), granted, "the holder keeps its token");
    let before = renewals(replica);
    eventually("the lease is renewed", || renewals(replica) > before);
    let outcome = holder.end();
    outcome.expect(3, "", LOST);
    assert!(is_free(replica), "the lease is released");
    assert_eq!(token(replica), granted);
    outcome
}

const TTL: [&str; 2] = ["--ttl", "6s"];

#[test]
fn a_holder_writes_a_lost_grant_again_and_continues() {
    on_both(|scene| {
        scene.run_once(&[]);
        let replica = copy(&scene.database, scene.second);
        let holder = scene.holder(&TTL);
        let granted = token(&scene.database);
        let waiter = scene.waiter();
        scene.fail_over();
        reasserted(holder, &replica, granted);
        waiter.wait().expect(0, "ran\n", "init is held by");
        assert!(token(&replica) > granted);
    });
}

#[test]
fn all_holders_in_slots_write_their_lost_grants_again_and_continue() {
    on_both(|scene| {
        scene.run_once(&["--shared"]);
        let replica = copy(&scene.database, scene.second);
        let options = ["--shared", "--ttl", "6s"];
        let holders = [(); 3].map(|()| scene.holder(&options));
        let slots = slots(&scene.database);
        assert_eq!(slots.len(), 3);
        scene.fail_over();
        for holder in &holders {
            holder.running.wait_for_output(AGAIN);
        }
        assert_eq!(
            self::slots(&replica),
            slots,
            "slots and tokens are the same"
        );
        let waiter = scene.waiter();
        for holder in holders {
            holder.end().expect(3, "", LOST);
        }
        waiter.wait().expect(0, "ran\n", "init is held by");
        let highest = slots.iter().map(|(_, token)| *token).max();
        assert!(Some(token(&replica)) > highest);
    });
}

/// Returns the numbers of the slots that are held, each with the token.
fn slots(database: &Database) -> Vec<(u32, u64)> {
    let query = "SELECT slot,token FROM dlock_slot WHERE owner_id IS NOT NULL ORDER BY slot";
    (database.admin_conn().query(query)).expect("the table exists")
}

#[test]
fn a_waiter_names_the_fail_over_and_waits_until_a_lost_lease_has_ended() {
    on_both(|scene| {
        scene.run_once(&[]);
        copy(&scene.database, scene.second);
        let holder = scene.holder(&TTL);
        let waiter = scene.waiter();
        holder.running.crash();
        scene.fail_over();
        let outcome = waiter.wait();
        outcome.expect(
            0,
            "ran\n",
            "init may still be held: another server responds",
        );
        outcome.expect(
            0,
            "ran\n",
            "as after a fail-over to an older replica or a restored backup",
        );
    });
}

/// The record of the second cluster is as the waiter has read it, except that it is free: another process may have been
/// granted the lease since then.
#[test]
fn a_waiter_expects_lost_grants_if_another_galera_cluster_has_the_same_name() {
    let cluster = galera();
    let other = Server::start(
        Series::Galera,
        &[
            "--wsrep-new-cluster",
            "--wsrep-start-position=00000000-0000-0000-0000-000000000000:-1",
        ],
    );
    let first = &cluster.nodes[0];
    let name = "SELECT @@wsrep_cluster_name";
    assert_eq!(value(first, name), value(&other, name));
    let state = "wsrep_cluster_state_uuid";
    assert_ne!(Galera::status(first, state), Galera::status(&other, state));
    let database = first.database("lost");
    let scene = Scene {
        flavour: Flavour::MariaDb,
        second: &other,
        proxy: Proxy::to(database.port),
        database,
    };
    scene.run_once(&[]);
    let holder = Holder::on(&scene.database, &TTL);
    // A lost lease could last for the longest ttl that the waiter knows.
    let waiter = scene.exec().args(["--ttl", "1h", "--wait", "15s"]);
    let waiter = waiter.args(["--", "echo", "ran"]).start();
    waiter.wait_for_output("init is held by");
    let replica = copy(&scene.database, &other);
    (replica.admin_conn())
        .query_drop("UPDATE dlock_lock SET owner_id=NULL")
        .expect("the row is changed");
    scene.fail_over();
    let message = "init may still be held: another server responds";
    waiter.wait().expect(75, "", message);
    assert_eq!(holder.end().status, Some(3));
}

#[test]
fn a_holder_writes_its_grant_to_a_database_without_a_record_or_with_a_minimum_hold() {
    on_both(|scene| {
        let setup = Dlock::on(&scene.database, ["setup"]).run();
        assert_eq!(setup.status, Some(0), "{setup:#?}");
        let empty = copy(&scene.database, scene.second);
        let holder = scene.holder(&TTL);
        let granted = token(&scene.database);
        scene.fail_over();
        reasserted(holder, &empty, granted);

        let scene = &Scene::new(scene.flavour);
        scene.run_once(&["--min-hold", "1h"]);
        let replica = copy(&scene.database, scene.second);
        let mut admin = scene.database.admin_conn();
        admin
            .query_drop("UPDATE dlock_lock SET owner_id=NULL,min_hold=0")
            .expect("the minimum hold ends");
        let holder = scene.holder(&TTL);
        let granted = token(&scene.database);
        scene.fail_over();
        reasserted(holder, &replica, granted);
    });
}

#[test]
fn a_lost_grant_with_a_fence_advances_the_fence_again() {
    on_both(|scene| {
        scene.run_once(&["--fence"]);
        let replica = copy(&scene.database, scene.second);
        let holder = scene.holder(&TTL);
        let granted = token(&scene.database);
        scene.fail_over();
        holder.running.wait_for_output(AGAIN);
        let fence: Option<u64> = replica
            .admin_conn()
            .query_first("SELECT token FROM dlock_fence")
            .expect("the table exists");
        assert_eq!(fence, Some(granted));
        reasserted(holder, &replica, granted);
    });
}

#[test]
fn a_holder_stops_if_the_older_database_has_another_holder_or_is_paused() {
    on_both(|scene| {
        scene.run_once(&[]);
        let replica = copy(&scene.database, scene.second);
        let thief = token(&replica) + 1;
        let holder = scene.holder(&TTL);
        steal(&replica);
        scene.fail_over();
        let outcome = holder.running.wait();
        outcome.expect(
            76,
            "",
            "lost init: the database has lost the grant, as after",
        );
        outcome.expect(76, "", "and init is held by a thief");
        assert_eq!(token(&replica), thief, "the record is unchanged");

        let scene = &Scene::new(scene.flavour);
        scene.run_once(&[]);
        let replica = copy(&scene.database, scene.second);
        let pause = "UPDATE dlock_lock SET paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR";
        let paused = replica.admin_conn().query_drop(pause);
        paused.expect("the row can be changed");
        let holder = scene.holder(&TTL);
        scene.fail_over();
        let outcome = holder.running.wait();
        outcome.expect(76, "", "as after a fail-over to an older replica");
        assert!(is_free(&replica), "the record is unchanged");
    });
}

#[test]
fn a_holder_whose_grant_was_replaced_names_the_fail_over() {
    on_both(|scene| {
        scene.run_once(&[]);
        let replica = copy(&scene.database, scene.second);
        let holder = scene.holder(&TTL);
        let other = Holder::on(&replica, &TTL);
        scene.fail_over();
        let outcome = holder.running.wait();
        outcome.expect(76, "", "although the lease of this process had not ended");
        outcome.expect(76, "", "a restored backup");
        assert_eq!(other.end().status, Some(3));
    });
}

#[test]
fn a_command_that_ends_before_its_lost_grant_is_noticed_gives_76() {
    on_both(|scene| {
        scene.run_once(&[]);
        let replica = copy(&scene.database, scene.second);
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
        outcome.expect(
            76,
            "",
            "the database has lost the grant of init before the command had ended",
        );
        assert_eq!(token(&replica), before);
    });
}

#[test]
fn a_command_that_ends_after_its_lost_grant_was_replaced_gives_76() {
    on_both(|scene| {
        for options in [&[][..], &["--once=k"]] {
            let scene = &Scene::new(scene.flavour);
            scene.run_once(&[]);
            let replica = copy(&scene.database, scene.second);
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
