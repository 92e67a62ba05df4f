//! Tests in which the address of dlock's server leads to another server, while the connections to the old server stay
//! open and the old server still accepts writes.

use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::command::{Stage, Witness, read_message, write_message};
use testkit::holder::{Holder, renewals};
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, Server, shared};

use super::stays;
use crate::faults::on_each;
use crate::mutants;
use crate::old_replica::{copy, read_only, second};

/// Text that dlock prints when it notices that its address has moved.
pub(super) const MOVED: &str = "now leads to another server";

/// A command that keeps the witness `$1` locked, writes to the fifo `$2`, and runs until it reads from the fifo `$3`.
const COMMAND: &str = r#"exec 9>>"$1"; flock -n 9 || { echo not alone; exit 99; }
    echo up > "$2"; read word < "$3"; exit 3"#;

/// A command that prints whether another command has the witness `$1` locked.
const NEXT: &str = r#"exec 9>>"$1"; if flock -n 9; then echo alone; else echo not alone; fi"#;

const TTL: Duration = Duration::from_secs(6);

/// An address that leads to the server of `old`. The tests move it to a second server.
struct Scene {
    old: Database,
    second: &'static Server,
    proxy: Proxy,
    stage: Stage,
    witness: Witness,
}

impl Scene {
    fn new(flavour: Flavour) -> Self {
        let old = shared(flavour).database("moved");
        let stage = Stage::new();
        Dlock::on(&old, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        Self {
            proxy: Proxy::to(old.port),
            second: second(flavour),
            witness: Witness::on(&stage),
            stage,
            old,
        }
    }

    /// Copies the database with its account to the second server.
    #[track_caller]
    fn copy(&self) -> Database {
        copy(&self.old, self.second)
    }

    /// Returns a `dlock exec` that connects to the address. `without` is the name of a disabled safeguard, or empty.
    fn exec(&self, without: &str) -> Dlock {
        let arguments = ["exec", "-a", "init", "--ttl", "6s", "-v"];
        match without {
            "" => Dlock::new(arguments),
            name => Dlock::of(&mutants::program(), arguments).env(mutants::VARIABLE, name),
        }
        .env("DLOCK_URL", self.old.url_through(self.proxy.port()))
    }

    /// Starts a holder and returns once its command runs.
    #[track_caller]
    fn holder(&self, without: &str) -> Running {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = self
            .exec(without)
            .args(["--", "sh", "-c", COMMAND, "sh"])
            .args([self.witness.path(), &ready, &go])
            .start();
        assert_eq!(read_message(&ready), "up");
        running
    }

    /// Lets the command of the holder end.
    fn let_go(&self) {
        write_message(&self.stage.path("go"), "on");
    }

    /// Starts a contender that gives up after `wait`.
    fn contender(&self, without: &str, wait: &str) -> Running {
        self.exec(without)
            .args(["--wait", wait, "--", "sh", "-c", NEXT, "sh"])
            .arg(self.witness.path())
            .start()
    }

    /// Makes the address lead to the second server.
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

#[track_caller]
fn ended(outcome: &Outcome, status: i32) {
    assert_eq!(outcome.status, Some(status), "{outcome:#?}");
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
        scene.let_go();
        let outcome = holder.wait();
        if without.is_empty() {
            outcome.expect(3, "", MOVED);
            outcome.expect(3, "", "init is renewed again after");
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
        let holder = scene.holder("");
        scene.move_address();
        let moved = Instant::now();
        let other = Holder::on(&new, &[]);
        let outcome = holder.wait();
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
        scene.let_go();
        ended(&holder.wait(), 3);
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
        scene.let_go();
        ended(&holder.wait(), 3);
        let outcome = waiter.wait();
        ended(&outcome, 0);
        assert_eq!(outcome.stdout, "alone\n", "{outcome:#?}");
        let runs = |database: &Database| -> Option<u64> {
            let count = "SELECT COUNT(*) FROM dlock_history WHERE outcome='exited' AND code=0";
            let count = database.admin_conn().query_first(count);
            count.expect("the table exists")
        };
        // The first run of the scene was a success and is in both copies.
        assert_eq!((runs(&scene.old), runs(&new)), (Some(1), Some(2)));
    });
}

/// Kills a holder whose command executes a statement on the old server. The statement waits until the connection that this
/// function returns is closed.
#[track_caller]
fn leave_statement(scene: &Scene, flavour: Flavour) -> Conn {
    let old = &scene.old;
    old.run("CREATE TABLE blocked (n INT PRIMARY KEY) ENGINE=InnoDB");
    old.run("INSERT INTO blocked VALUES (0)");
    let mut lock = old.admin_conn();
    for statement in ["BEGIN", "SELECT n FROM blocked FOR UPDATE"] {
        lock.query_drop(statement).expect("root has the privilege");
    }
    let statement = "SET SESSION innodb_lock_wait_timeout=600; UPDATE blocked SET n=1";
    let holder = Dlock::on(
        old,
        ["exec", "-a", "init", "--ttl=6s", "--server-sessions=wait"],
    )
    .arg("--")
    .arg(flavour.client())
    .args([
        "--no-defaults",
        "--host=127.0.0.1",
        &format!("--port={}", old.port),
    ])
    .args([
        format!("--user={}", old.user),
        format!("--password={}", old.password),
    ])
    .args([&*old.name, "-e", statement])
    .start();
    eventually("the session is noted", || {
        let noted = "SELECT 1 FROM dlock_lock WHERE sessions IS NOT NULL";
        let noted: Option<u8> = old
            .admin_conn()
            .query_first(noted)
            .expect("the table exists");
        noted.is_some()
    });
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
        copy(&scene.old, replica);
        let before = scene.proxy.connections();
        let exec = Dlock::through(&scene.old, scene.proxy.port(), ["exec"]);
        let holder = Holder::start(exec, &["-v", "--ttl", "6s"]);
        scene.proxy.retarget(replica.port());
        stays(&holder, &scene.old);
        let checks = scene.proxy.connections() - before;
        assert!(checks >= 2, "the address was checked");
        scene.proxy.door(AcceptMode::Silent);
        stays(&holder, &scene.old);
        assert_eq!(holder.end().status, Some(3));
    });
}
