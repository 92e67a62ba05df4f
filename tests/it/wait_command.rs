//! Tests of `dlock wait`, which waits for an action or a success without contending for the lock.

use testkit::cli_runner::{Dlock, Outcome};
use testkit::holder::Holder;
use testkit::proxy::{Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;

/// A database, and a second account that can only read this database.
struct Scene {
    database: Database,
    reader: Database,
}

impl Scene {
    fn on(flavour: Flavour) -> Self {
        let database = shared(flavour).database("wait");
        let reader = database.account("reader");
        reader.grant(&format!("SELECT ON `{}`.*", reader.name));
        Self { database, reader }
    }

    fn holder(&self) -> Holder {
        Holder::on(&self.database, &["--holder=web-1"])
    }

    fn exec(&self, once: &str, command: &str) -> Outcome {
        Dlock::on(&self.database, ["exec", "init", once, "--", command]).run()
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
        scene.wait(&["init"]).expect(78, "", "dlock setup");
        let holder = scene.holder();
        let waiter = scene.wait(&["init"]).start();
        waiter.wait_for_output("dlock: waiting: init is held by web-1 (token ");
        holder.end().expect(3, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        scene.wait(&["-a", "init"]).expect(0, "", "");
        scene.wait(&["never"]).expect(0, "", "never is unknown");
    });
}

#[test]
fn wait_done_waits_for_a_success_of_a_free_action() {
    everywhere(|scene| {
        // The tables do not exist yet.
        let without_tables = scene.wait(&["init", "--done", "--timeout=0"]).run();
        without_tables.expect(75, "", "init is not done");
        let mut waiter = scene.wait(&["init", "--done=v1"]).start();
        waiter.wait_for_output("dlock: waiting: init (v1) is not done");
        assert_eq!(scene.exec("--once=v1", "false").status, Some(1));
        scene.exec("--once=v2", "true").expect(0, "", "");
        scene.exec("--once", "true").expect(0, "", "");
        let not_done = scene.wait(&["init", "--done=v1", "--timeout=0"]).run();
        not_done.expect(75, "", "init (v1) is not done; gave up after ");
        assert!(!waiter.is_over(), "dlock wait exited before a success");
        scene.exec("--once=v1", "true").expect(0, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        scene.wait(&["init", "--done=v1"]).expect(0, "", "");
        scene.wait(&["init", "--done"]).expect(0, "", "");
    });
}

#[test]
fn wait_ends_at_its_timeout_or_on_a_signal() {
    everywhere(|scene| {
        let holder = scene.holder();
        let gave_up = |outcome: Outcome| {
            outcome.expect(75, "", "dlock: init is held by web-1 (token ");
            outcome.expect(75, "", "; gave up after ");
        };
        for timeout in ["0", "300ms"] {
            gave_up(scene.wait(&["init", "--timeout", timeout]).run());
        }
        // The timeout ends a slow request too.
        let proxy = Proxy::to(scene.reader.port);
        let proxied = scene.reader.through(proxy.port());
        let waiter = Dlock::typed(&proxied, "wait init --timeout=1500ms").start_until("waiting: ");
        proxy.responses(Flow::Hold);
        gave_up(waiter.wait());
        for (signal, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
            let waiter = scene.wait(&["init"]).start_until("waiting: ");
            (waiter.wait_after(signal)).expect(status, "", "while waiting for init");
        }
        holder.end().expect(3, "", "");
    });
}

#[test]
fn wait_reconnects_and_exits_69_if_the_server_is_unreachable() {
    everywhere(|scene| {
        let holder = scene.holder();
        let waiter = scene.wait(&["init"]).start_until("waiting: ");
        let mut admin = scene.database.admin_conn();
        let user = &scene.reader.user;
        let query = format!("SELECT id FROM information_schema.processlist WHERE user='{user}'");
        let sessions: Vec<u64> = admin.rows(query);
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        admin.run(format!("KILL {}", sessions[0]));
        holder.end().expect(3, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        let unreachable = Dlock::typed(&scene.reader.through(1), "wait init --connect-timeout=0");
        unreachable.expect(69, "", "cannot reach 127.0.0.1:1");
    });
}

#[test]
fn wait_without_a_key_names_the_keys_that_are_done() {
    everywhere(|scene| {
        for key in ["--once=v41", "--once=release 42"] {
            scene.exec(key, "true").expect(0, "", "");
        }
        let why = "init is not done without a key, only with release 42, v41; did you mean --done='release 42'?";
        let once = scene.wait(&["init", "--done", "--timeout=0"]).run();
        once.expect(75, "", why);
        // The first message, before any pause.
        let waiter = scene.wait(&["init", "--done"]).start();
        waiter.wait_for_output(&format!("dlock: waiting: {why}"));
        scene.exec("--once", "true").expect(0, "", "");
        assert_eq!(waiter.wait().status, Some(0));
        let other = scene.wait(&["init", "--done=v43", "--timeout=0"]).run();
        other.expect(75, "", "init (v43) is not done; gave up");
    });
}
