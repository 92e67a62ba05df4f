//! Tests in which the address of dlock's server leads to another server, while the connections to the old server stay
//! open and the old server still accepts writes.

use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::holder::{Holder, renewals};
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, Server, shared};
use testkit::sql::Sql;

use super::stays;
use crate::faults::on_each;
use crate::mutants;
use crate::old_replica::{copy, read_only, second};

/// Text that dlock prints when it notices that its address has moved.
pub(super) const MOVED: &str = "now leads to another server";

const TTL: Duration = Duration::from_secs(6);

/// An address that leads to the server of `commands`. The tests move it to a second server.
struct Scene {
    commands: mutants::scene::Scene,
    second: &'static Server,
    proxy: Proxy,
}

impl Scene {
    fn new(flavour: Flavour) -> Self {
        let commands = mutants::scene::Scene::on(shared(flavour).database("moved"), "");
        Self {
            proxy: Proxy::to(commands.database.port),
            second: second(flavour),
            commands,
        }
    }

    fn old(&self) -> &Database {
        &self.commands.database
    }

    #[track_caller]
    fn copy(&self) -> Database {
        copy(self.old(), self.second)
    }

    /// Returns a `dlock exec` that connects to the address. `without` is the name of a disabled safeguard, or empty.
    fn exec(&self, without: &str) -> Dlock {
        let arguments = ["exec", "-a", "init", "--ttl", "6s", "-v"];
        match without {
            "" => Dlock::new(arguments),
            name => Dlock::of(&mutants::program(), arguments).env(mutants::VARIABLE, name),
        }
        .env("DLOCK_URL", self.old().url_through(self.proxy.port()))
    }

    #[track_caller]
    fn holder(&self, without: &str) -> Running {
        self.commands.holder(self.exec(without))
    }

    /// Starts a holder whose command ends when it gets SIGTERM.
    #[track_caller]
    fn stoppable_holder(&self) -> Holder {
        Holder::through(self.old(), self.proxy.port(), &["-v", "--ttl", "6s"])
    }

    fn contender(&self, without: &str, wait: &str) -> Running {
        self.commands
            .next(self.exec(without).args(["--wait", wait]))
    }

    fn move_address(&self) {
        self.proxy.retarget(self.second.port());
    }
}

/// Runs `scenario` on both kinds of servers, with dlock and with the mutant that does not check its address.
fn compare(scenario: impl Fn(&Scene, &str) + Sync) {
    on_each(|flavour| {
        thread::scope(|scope| {
            scope.spawn(|| scenario(&Scene::new(flavour), "address"));
            scenario(&Scene::new(flavour), "");
        });
    });
}

/// Asserts that the contender gave up, or that the mutant started a second command.
#[track_caller]
fn waited(contender: &Outcome, without: &str) {
    match without {
        "" => contender.expect(75, "", "init is held by"),
        _ => assert_eq!(contender.stdout, "not alone\n", "{contender:#?}"),
    }
}

#[test]
fn a_holder_moves_its_lease_to_the_server_of_its_address() {
    compare(|scene, without| {
        let holder = scene.holder(without);
        let new = scene.copy();
        scene.move_address();
        waited(&scene.contender("", "9s").wait(), without);
        scene.commands.let_go();
        let outcome = holder.wait();
        if without.is_empty() {
            outcome.expect(4, "", MOVED);
            outcome.expect(4, "", "init is renewed again after");
            assert!(renewals(&new) > 0, "the lease is renewed there");
        }
    });
}

#[test]
fn a_holder_stops_if_another_process_has_the_lease_on_the_server_of_its_address() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // The second server has lost the grant of the holder.
        let new = scene.copy();
        let holder = scene.stoppable_holder();
        scene.move_address();
        let moved = Instant::now();
        let other = Holder::on(&new, &[]);
        let outcome = holder.running.wait();
        outcome.expect(76, "", MOVED);
        assert!(moved.elapsed() < TTL, "{outcome:#?}");
        assert_eq!(other.end().status, Some(3));
    });
}

#[test]
fn a_waiter_on_the_old_server_does_not_take_over_the_lease_there() {
    compare(|scene, without| {
        let holder = scene.holder("");
        let waiter = scene.contender(without, "15s");
        waiter.wait_for_output("init is held by");
        scene.copy();
        scene.move_address();
        holder.wait_for_output(MOVED);
        waited(&waiter.wait(), without);
        scene.commands.let_go();
        holder.wait().exited(4);
    });
}

#[test]
fn a_waiter_on_the_old_server_does_not_use_a_lease_that_is_released_there() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.holder("");
        let waiter = scene.contender("", "30s");
        waiter.wait_for_output("init is held by");
        // The holder has checked its address twice, so the connection of the waiter is older than the interval.
        scene.proxy.wait_connections(4);
        let new = scene.copy();
        scene.move_address();
        scene.commands.let_go();
        holder.wait().exited(4);
        waiter.wait().expect(0, "alone\n", "init is held by");
        let runs = |database: &Database| -> u64 {
            database.value("SELECT COUNT(*) FROM dlock_history WHERE outcome='exited' AND code=0")
        };
        // The first run of the scene was a success and is in both copies.
        assert_eq!((runs(scene.old()), runs(&new)), (1, 2));
    });
}

/// Kills a holder whose command executes a statement on the old server. The statement waits until the connection that this
/// function returns is closed.
#[track_caller]
fn leave_statement(scene: &Scene, flavour: Flavour) -> Conn {
    let old = scene.old();
    old.run(
        "CREATE TABLE blocked (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO blocked VALUES (0)",
    );
    let mut lock = old.admin_conn();
    lock.run("BEGIN; SELECT n FROM blocked FOR UPDATE");
    let exec = "exec -a init --ttl=6s --server-sessions=wait --".split(' ');
    let holder = Dlock::on(old, exec)
        .arg(flavour.client())
        .args(["--no-defaults", "--host=127.0.0.1"])
        .arg(format!("--port={}", old.port))
        .arg(format!("--user={}", old.user))
        .arg(format!("--password={}", old.password))
        .args([&*old.name, "-e"])
        .arg("SET SESSION innodb_lock_wait_timeout=600; UPDATE blocked SET n=1")
        .start();
    old.wait_until("sessions IS NOT NULL FROM dlock_lock");
    holder.crash();
    lock
}

#[test]
fn a_contender_that_waits_for_the_end_of_a_statement_notices_that_its_address_has_moved() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let new = scene.copy();
        let _lock = leave_statement(&scene, flavour);
        let contender = scene.contender("", "1h");
        contender.wait_for_output("which an earlier run of init left on the server");
        let other = Holder::on(&new, &[]);
        scene.move_address();
        contender.wait().expect(76, "", MOVED);
        assert_eq!(other.end().status, Some(3));
    });
}

#[test]
fn neither_a_read_only_server_nor_silence_is_a_move() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let replica = read_only(flavour);
        copy(scene.old(), replica);
        let before = scene.proxy.connections();
        let holder = scene.stoppable_holder();
        scene.proxy.retarget(replica.port());
        stays(&holder, scene.old());
        let checks = scene.proxy.connections() - before;
        assert!(checks >= 2, "the address was checked");
        scene.proxy.door(AcceptMode::Silent);
        stays(&holder, scene.old());
        assert_eq!(holder.end().status, Some(3));
    });
}
