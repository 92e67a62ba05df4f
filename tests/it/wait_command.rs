//! Tests of `dlock wait`, which waits for an action or a success without contending for the lock.

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, read_message, write_message};
use testkit::proxy::{Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};

/// A database, and a second account that can only read this database.
struct Scene {
    database: Database,
    reader: Database,
    stage: Stage,
}

impl Scene {
    fn on(flavour: Flavour) -> Self {
        let server = shared(flavour);
        let database = server.database("wait");
        let mut reader = server.database("reader");
        let grant = format!(
            "GRANT SELECT ON `{}`.* TO '{}'@'%'",
            database.name, reader.user
        );
        server
            .admin()
            .query_drop(grant)
            .expect("the privileges can be granted");
        reader.name.clone_from(&database.name);
        Self {
            reader,
            database,
            stage: Stage::new(),
        }
    }

    /// Starts a holder whose command exits with the status from [`Self::let_go`].
    fn holder(&self, options: &[&str]) -> Running {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = Dlock::on(&self.database, ["exec", "-a", "init", "--holder=web-1"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read status < "$2"; exit "$status""#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        read_message(&ready);
        running
    }

    fn let_go(&self, status: &str) {
        write_message(&self.stage.path("go"), status);
    }

    fn wait(&self, options: &[&str]) -> Dlock {
        Dlock::on(&self.reader, ["wait"]).args(options)
    }
}

fn everywhere(test: impl Fn(&Scene)) {
    for flavour in Flavour::ALL {
        test(&Scene::on(flavour));
    }
}

#[test]
fn read_only_account_waits_until_the_action_is_free() {
    everywhere(|scene| {
        let holder = scene.holder(&[]);
        let waiter = scene.wait(&["init"]).start();
        waiter.wait_for_output("dlock: waiting: init is held by web-1 (token ");
        scene.let_go("3");
        assert_eq!(holder.wait().status, Some(3));
        assert_eq!(waiter.wait().status, Some(0));
        scene.wait(&["-a", "init"]).run().expect(0, "", "");
        scene
            .wait(&["never"])
            .run()
            .expect(0, "", "never is unknown");
    });
}

#[test]
fn wait_done_waits_for_a_success_of_a_free_action() {
    everywhere(|scene| {
        // The tables do not exist yet.
        let waiter = scene.wait(&["init", "--done=v1"]).start();
        waiter.wait_for_output("dlock: waiting: init (v1) is not done");
        let exec = |once: &str, command: &str| {
            Dlock::on(&scene.database, ["exec", "-a", "init", once, "--", command]).run()
        };
        assert_eq!(exec("--once=v1", "false").status, Some(1));
        exec("--once=v2", "true").expect(0, "", "");
        exec("--once", "true").expect(0, "", "");
        scene
            .wait(&["init", "--done=v1", "--timeout=0"])
            .run()
            .expect(75, "", "init (v1) is not done; gave up after ");
        let mut waiter = waiter;
        assert!(
            !waiter.is_over(),
            "dlock wait exited before a success was recorded"
        );
        exec("--once=v1", "true").expect(0, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        scene.wait(&["init", "--done=v1"]).run().expect(0, "", "");
        scene.wait(&["init", "--done"]).run().expect(0, "", "");
    });
}

#[test]
fn wait_ends_at_its_timeout_or_on_a_signal() {
    everywhere(|scene| {
        let holder = scene.holder(&[]);
        for timeout in ["0", "300ms"] {
            let waiter = scene.wait(&["init", "--timeout", timeout]).run();
            waiter.expect(75, "", "dlock: init is held by web-1 (token ");
            waiter.expect(75, "", "; gave up after ");
        }
        for (signal, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
            let waiter = scene.wait(&["init"]).start();
            waiter.wait_for_output("waiting: ");
            waiter.signal(signal);
            waiter.wait().expect(status, "", "while waiting for init");
        }
        scene.let_go("0");
        holder.wait().expect(0, "", "");
    });
}

#[test]
fn wait_that_ends_during_a_slow_poll_names_the_holder() {
    everywhere(|scene| {
        let holder = scene.holder(&[]);
        let proxy = Proxy::to(scene.reader.port);
        let waiter = scene
            .wait(&["init", "--timeout=1500ms"])
            .env("DLOCK_URL", scene.reader.url_through(proxy.port()))
            .start();
        waiter.wait_for_output("waiting: ");
        proxy.responses(Flow::Hold);
        let outcome = waiter.wait();
        outcome.expect(75, "", "dlock: init is held by web-1 (token ");
        outcome.expect(75, "", "; gave up after 1s");
        scene.let_go("0");
        holder.wait().expect(0, "", "");
    });
}

#[test]
fn wait_reconnects_and_exits_69_if_the_server_is_unreachable() {
    everywhere(|scene| {
        let holder = scene.holder(&[]);
        let waiter = scene.wait(&["init"]).start();
        waiter.wait_for_output("waiting: ");
        let mut admin = scene.database.admin_conn();
        let sessions: Vec<u64> = admin
            .query(format!(
                "SELECT id FROM information_schema.processlist WHERE user='{}'",
                scene.reader.user
            ))
            .expect("the sessions can be read");
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        admin
            .query_drop(format!("KILL {}", sessions[0]))
            .expect("the session can be killed");
        scene.let_go("0");
        holder.wait().expect(0, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        scene
            .wait(&["init", "--connect-timeout=0"])
            .env("DLOCK_URL", scene.reader.url_through(1))
            .run()
            .expect(69, "", "cannot reach 127.0.0.1:1");
    });
}

#[test]
fn wait_without_a_key_names_the_keys_that_are_done() {
    everywhere(|scene| {
        for key in ["--once=v41", "--once=release 42"] {
            let exec = Dlock::on(&scene.database, ["exec", "init", key, "--", "true"]);
            exec.run().expect(0, "", "");
        }
        let why = "init is not done without a key, only with release 42, v41; did you mean --done='release 42'?";
        let once = scene.wait(&["init", "--done", "--timeout=0"]).run();
        once.expect(75, "", why);
        // The first message, before any pause.
        let waiter = scene.wait(&["init", "--done"]).start();
        waiter.wait_for_output(&format!("dlock: waiting: {why}"));
        let exec = Dlock::on(&scene.database, ["exec", "init", "--once", "--", "true"]);
        exec.run().expect(0, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        let other = scene.wait(&["init", "--done=v43", "--timeout=0"]).run();
        other.expect(75, "", "init (v43) is not done; gave up");
    });
}

#[test]
fn wait_without_tables_never_reports_a_free_action() {
    everywhere(|scene| {
        scene.wait(&["init"]).run().expect(78, "", "dlock setup");
        scene
            .wait(&["init", "--done", "--timeout=0"])
            .run()
            .expect(75, "", "init is not done");
    });
}
