//! Tests in which the address of dlock's server leads to another server, while the connections to the old server stay
//! open and the old server still accepts writes.

use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use dlock::lease::Token;
use dlock::store::session::{ServerInstance, ServerSession, SessionNote, SessionPolicy};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, Row};
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::clusters::{Galera, galera, run};
use testkit::command::{Stage, Witness, read_message, write_message};
use testkit::holder::{Holder, renewals};
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, SESSIONS, Server, shared};

use crate::mutants;

/// Text that dlock prints when it notices that its address has moved.
const MOVED: &str = "now leads to another server";

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
        static MARIADB: OnceLock<Server> = OnceLock::new();
        static MYSQL: OnceLock<Server> = OnceLock::new();
        let second = match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql => &MYSQL,
        };
        let old = shared(flavour).database("moved");
        let stage = Stage::new();
        ended(
            &Dlock::on(&old, ["exec", "-a", "init", "--", "true"]).run(),
            0,
        );
        Self {
            proxy: Proxy::to(old.port),
            second: second.get_or_init(|| Server::start(flavour, &[])),
            witness: Witness::on(&stage),
            stage,
            old,
        }
    }

    /// Copies the database with its account to the second server.
    #[track_caller]
    fn copy(&self) -> Database {
        let new = self.second.same(&self.old);
        new.create(&mut self.second.admin());
        let (mut from, mut to) = (self.old.admin_conn(), new.admin_conn());
        let tables: Vec<String> = from.query("SHOW TABLES").expect("root sees the tables");
        for table in tables {
            let create: Option<(String, String)> = from
                .query_first(format!("SHOW CREATE TABLE {table}"))
                .expect("root sees the table");
            let (_, create) = create.expect("the table exists");
            to.query_drop(create).expect("the table is created");
            let rows: Vec<Row> = from
                .query(format!("SELECT * FROM {table}"))
                .expect("root reads the table");
            for row in rows {
                let values = row.unwrap();
                let places = vec!["?"; values.len()].join(",");
                to.exec_drop(format!("INSERT INTO {table} VALUES ({places})"), values)
                    .expect("the row is copied");
            }
        }
        new
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
    fn holder(&self, without: &str, name: &str) -> Running {
        let fifo = |kind: &str| self.stage.fifo(&format!("{kind}-{name}"));
        let (ready, go) = (fifo("ready"), fifo("go"));
        let running = self
            .exec(without)
            .args(["--", "sh", "-c", COMMAND, "sh"])
            .args([self.witness.path(), &ready, &go])
            .start();
        assert_eq!(read_message(&ready), "up");
        running
    }

    /// Lets the command of a holder end.
    fn let_go(&self, name: &str) {
        write_message(&self.stage.path(&format!("go-{name}")), "on");
    }

    /// Starts a contender that gives up after `wait`.
    fn contender(&self, without: &str, wait: &str) -> Running {
        let witness: &Path = self.witness.path();
        self.exec(without)
            .args(["--wait", wait, "--", "sh", "-c", NEXT, "sh"])
            .arg(witness)
            .start()
    }

    /// Makes the address lead to the second server.
    fn move_address(&self) {
        self.proxy.retarget(self.second.port());
    }
}

/// Runs `scenario` on both kinds of servers, with dlock and with the mutant that does not check its address.
fn compare(scenario: impl Fn(&Scene, &str) + Sync) {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            for without in ["", "address"] {
                let scenario = &scenario;
                scope.spawn(move || scenario(&Scene::new(flavour), without));
            }
        }
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
        let holder = scene.holder(without, "one");
        let new = scene.copy();
        scene.move_address();
        waited(&scene.contender("", "9s").wait(), without);
        scene.let_go("one");
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
    compare(|scene, without| {
        // The second server has lost the grant of the holder.
        scene.copy();
        let mut holder = scene.holder(without, "one");
        scene.move_address();
        let moved = Instant::now();
        let url = scene.old.url_through(scene.second.port());
        let go = scene.stage.fifo("go");
        let other = Dlock::new([
            "exec",
            "-a",
            "init",
            "--",
            "sh",
            "-c",
            "read word < \"$1\"",
            "sh",
        ])
        .arg(&go)
        .env("DLOCK_URL", url)
        .start();
        if without.is_empty() {
            let outcome = holder.wait();
            outcome.expect(76, "", MOVED);
            assert!(moved.elapsed() < TTL, "{outcome:#?}");
        } else {
            eventually("a ttl has passed", || moved.elapsed() > TTL);
            assert!(!holder.is_over(), "the holder has stopped");
            scene.let_go("one");
            ended(&holder.wait(), 3);
        }
        write_message(&go, "on");
        ended(&other.wait(), 0);
    });
}

#[test]
fn a_waiter_on_the_old_server_does_not_take_over_the_lease_there() {
    compare(|scene, without| {
        let holder = scene.holder("", "one");
        let waiter = scene.contender(without, "15s");
        waiter.wait_for_output("init is held by");
        scene.copy();
        scene.move_address();
        holder.wait_for_output(MOVED);
        waited(&waiter.wait(), without);
        scene.let_go("one");
        ended(&holder.wait(), 3);
    });
}

#[test]
fn a_waiter_on_the_old_server_does_not_use_a_lease_that_is_released_there() {
    compare(|scene, without| {
        let holder = scene.holder("", "one");
        let waiter = scene.contender(without, "30s");
        waiter.wait_for_output("init is held by");
        // The holder has checked its address twice, so the connection of the waiter is older than the interval.
        scene.proxy.wait_connections(4);
        let new = scene.copy();
        scene.move_address();
        scene.let_go("one");
        ended(&holder.wait(), 3);
        let outcome = waiter.wait();
        ended(&outcome, 0);
        assert_eq!(outcome.stdout, "alone\n", "{outcome:#?}");
        let runs = |database: &Database| -> Option<u64> {
            let mut root = database.admin_conn();
            let count = "SELECT COUNT(*) FROM dlock_history WHERE outcome='exited' AND code=0";
            root.query_first(count).expect("the table exists")
        };
        // The first run of the scene was a success and is in both copies.
        let expected = if without.is_empty() { (1, 2) } else { (2, 1) };
        assert_eq!(
            (runs(&scene.old), runs(&new)),
            (Some(expected.0), Some(expected.1))
        );
    });
}

/// Starts a statement of the account, and notes its session in the free record as that of an earlier command.
#[track_caller]
fn leave_statement(database: &Database) -> Conn {
    let url = database.url();
    let mut client = Conn::new(Opts::from_url(&url).expect("a URL")).expect("a session");
    let facts = "SELECT p.id,p.host,CONCAT(@@hostname,':',@@port,'/',@@server_id),UNIX_TIMESTAMP() \
                 FROM information_schema.processlist AS p WHERE p.id=CONNECTION_ID()";
    let facts: Option<(u64, String, String, i64)> = client.query_first(facts).expect("a row");
    let (id, address, server, now) = facts.expect("a row");
    let mut root = database.admin_conn();
    let uptime: Option<(String, i64)> = root
        .query_first("SHOW GLOBAL STATUS LIKE 'Uptime'")
        .expect("a row");
    let note = SessionNote {
        instance: ServerInstance {
            server,
            started: now - uptime.expect("a row").1,
        },
        token: Token(1),
        policy: SessionPolicy::Wait,
        sessions: vec![ServerSession {
            id,
            account: database.user.clone(),
            client: address,
        }],
    };
    root.exec_drop("UPDATE dlock_lock SET sessions=?", (note.to_text(),))
        .expect("the row is changed");
    thread::spawn(move || client.query_drop("SELECT SLEEP(600)"));
    eventually("the statement is executed", || {
        let query =
            format!("SELECT COUNT(*) FROM {SESSIONS} p WHERE p.id={id} AND p.info LIKE '%SLEEP%'");
        root.query_first(query).expect("a row") == Some(1)
    });
    root
}

#[test]
fn a_contender_that_waits_for_the_end_of_a_statement_notices_that_its_address_has_moved() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let new = scene.copy();
        let _root = leave_statement(&scene.old);
        let contender = scene.contender("", "1h");
        contender.wait_for_output("which an earlier run of init left on the server");
        let other = Holder::on(&new, &[]);
        scene.move_address();
        let outcome = contender.wait();
        outcome.expect(76, "", MOVED);
        assert_eq!(other.end().status, Some(3));
    }
}

/// Asserts that the holder at `proxy` stays on its server for two more checks of its address.
#[track_caller]
fn stays(scene: &Scene, check: impl FnOnce()) {
    let holder = scene.holder("", "one");
    check();
    let before = renewals(&scene.old);
    eventually("the lease is renewed on the same server", || {
        renewals(&scene.old) > before + 7
    });
    scene.let_go("one");
    let outcome = holder.wait();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    for text in [MOVED, "cannot renew", "reconnecting"] {
        assert!(!outcome.stderr.contains(text), "{outcome:#?}");
    }
}

#[test]
fn a_read_only_server_is_not_a_move() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let replica = Server::start(flavour, &[]);
        let there = replica.same(&scene.old);
        there.create(&mut replica.admin());
        ended(&Dlock::on(&there, ["setup"]).run(), 0);
        run(&replica, "SET GLOBAL read_only=ON");
        let before = scene.proxy.connections();
        stays(&scene, || scene.proxy.retarget(replica.port()));
        assert!(
            scene.proxy.connections() >= before + 2,
            "the address was checked"
        );
    }
}

#[test]
fn an_address_that_does_not_respond_changes_nothing() {
    let scene = Scene::new(Flavour::MariaDb);
    stays(&scene, || scene.proxy.door(AcceptMode::Silent));
}

/// Returns an address that leads to the first node of the cluster.
fn on_first_node(cluster: &Galera) -> Scene {
    let first = &cluster.nodes[0];
    let old = first.database("moved");
    ended(&Dlock::on(&old, ["setup"]).run(), 0);
    let stage = Stage::new();
    Scene {
        proxy: Proxy::to(first.port()),
        second: shared(Flavour::MariaDb),
        witness: Witness::on(&stage),
        stage,
        old,
    }
}

#[test]
fn another_node_of_the_same_cluster_is_not_a_move() {
    let cluster = galera();
    let scene = on_first_node(&cluster);
    stays(&scene, || scene.proxy.retarget(cluster.nodes[1].port()));
}

#[test]
fn a_node_of_the_same_cluster_that_applies_no_writes_is_not_a_move() {
    let cluster = galera();
    let scene = on_first_node(&cluster);
    let second = &cluster.nodes[1];
    let mut root = second.admin();
    let before = scene.proxy.connections();
    stays(&scene, || {
        root.query_drop("FLUSH TABLES WITH READ LOCK")
            .expect("root has the privilege");
        scene.proxy.retarget(second.port());
    });
    assert!(
        scene.proxy.connections() > before,
        "the address was checked"
    );
}
