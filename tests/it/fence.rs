//! Fencing: whether a token is current, and a transaction of the command that nobody overtakes.

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, Running, eventually};
use crate::servers::{Database, Flavour, shared};

/// A database with a table of the command's own.
struct Scene {
    database: Database,
    stage: Stage,
    admin: Conn,
}

/// A holder of `init` whose command has told its token and waits for a word.
struct Run {
    running: Running,
    token: u64,
}

impl Scene {
    fn on(flavour: Flavour) -> Self {
        let database = shared(flavour).database("fence");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        let mut admin = database.admin_conn();
        let site = "CREATE TABLE site (id INT PRIMARY KEY, state TEXT)";
        admin.query_drop(site).expect("a table of the command");
        Self {
            admin,
            database,
            stage: Stage::new(),
        }
    }

    fn exec(&self, options: &[&str]) -> Dlock {
        Dlock::on(&self.database, ["exec", "-a", "init", "--ttl=2s"]).args(options)
    }

    fn holder(&self) -> Run {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = self
            .exec(&["--fence", "--", "sh", "-c"])
            .arg(r#"echo $DLOCK_TOKEN > "$1"; read word < "$2""#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        let token = heard(&ready);
        Run {
            running,
            token: token.parse().expect("a token"),
        }
    }

    fn let_go(&self) {
        tell(&self.stage.path("go"), "on");
    }

    /// The statement that the command of `token` says in its transaction.
    fn statement(&self, token: u64) -> String {
        let outcome = Dlock::on(&self.database, ["check", "--sql", "--action=init"])
            .env("DLOCK_TOKEN", token.to_string())
            .run();
        outcome.stdout
    }

    /// A transaction of the command of `token`, as an account that may read the fence and no more of
    /// dlock's, in which the token was found to be current.
    fn transaction(&mut self, token: u64) -> Result<Conn, mysql::Error> {
        let Database { name, user, .. } = &self.database;
        let other = format!("m_{user}");
        for statement in [
            format!("CREATE USER IF NOT EXISTS '{other}'@'%' IDENTIFIED BY 'pw'"),
            format!("GRANT SELECT ON `{name}`.dlock_fence TO '{other}'@'%'"),
            format!("GRANT SELECT, INSERT ON `{name}`.site TO '{other}'@'%'"),
        ] {
            self.admin.query_drop(statement).expect("an account");
        }
        let options = mysql::OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(self.database.port)
            .prefer_socket(false)
            .user(Some(other))
            .pass(Some("pw"))
            .db_name(Some(name));
        let mut transaction = Conn::new(options).expect("connects");
        transaction.query_drop("BEGIN").expect("begins");
        // What fails is the row, so it has to be read.
        let fence: Option<String> = transaction.query_first(self.statement(token))?;
        assert_eq!(fence.as_deref(), Some("current"));
        Ok(transaction)
    }

    fn asks<T: mysql::prelude::FromValue>(&mut self, what: &str) -> T {
        let ask = format!("SELECT {what} FROM dlock_lock WHERE action='init'");
        self.admin.query_first(ask).expect("asks").expect("a row")
    }

    fn check(&self, token: u64) -> Dlock {
        Dlock::on(&self.database, ["check"])
            .env("DLOCK_ACTION", "init")
            .env("DLOCK_TOKEN", token.to_string())
    }
}

fn everywhere(claim: impl Fn(Scene)) {
    for flavour in Flavour::ALL {
        claim(Scene::on(flavour));
    }
}

#[test]
fn check_tells_by_its_status_whether_the_token_is_current() {
    everywhere(|mut scene| {
        let run = scene.holder();
        scene.check(run.token).run().expect(0, "", "");
        scene
            .check(run.token - 1)
            .run()
            .expect(76, "", "is not current: init is held by ");
        scene.let_go();
        run.running.wait().expect(0, "", "");
        scene
            .check(run.token)
            .run()
            .expect(76, "", "is not current: init is free (last token ");
        scene
            .exec(&["--", env!("CARGO_BIN_EXE_dlock"), "check"])
            .run()
            .expect(0, "", "");
        let last: u64 = scene.asks("token");
        scene.exec(&["--min-hold=1h", "--", "true"]).run();
        assert!(scene.asks::<u64>("token") > last);
        let kept = scene.asks("token");
        scene.check(kept).run().expect(76, "", "kept by --min-hold");
    });
    Dlock::new(["check", "-a", "init"])
        .run()
        .expect(64, "", "--token");
}

#[test]
fn a_take_over_waits_for_the_transaction_of_the_last_holder_and_a_stale_token_aborts_one() {
    everywhere(|mut scene| {
        let run = scene.holder();
        let mut transaction = scene.transaction(run.token).expect("the token is current");
        run.running.signal("KILL");
        // One that knows of the fence, and one that does not.
        let log = scene.stage.path("log");
        let script = r#"echo "$DLOCK_HOLDER" >> "$1""#;
        let next: Vec<Running> = [&["--holder=fenced", "--fence"][..], &["--holder=plain"]]
            .iter()
            .map(|options| {
                let next = scene.exec(options).args(["--", "sh", "-c", script, "sh"]);
                let next = next.arg(&log).start();
                next.heard("init is held by ");
                next
            })
            .collect();
        eventually("the lease has lapsed long ago", || {
            scene.asks::<Option<u8>>("expires_at<UTC_TIMESTAMP(6)-INTERVAL 6 SECOND") == Some(1)
        });
        scene
            .exec(&["-n", "--", "true"])
            .run()
            .expect(75, "", "init is ");
        assert_eq!(scene.asks::<u64>("token"), run.token, "granted too early");
        transaction
            .query_drop("INSERT INTO site VALUES (1,'done')")
            .expect("writes");
        transaction.query_drop("COMMIT").expect("commits");
        for next in next {
            next.wait().expect(0, "", "init ");
        }
        let served = std::fs::read_to_string(log).expect("both ran");
        assert_eq!(served.lines().count(), 2, "{served}");
        assert!(scene.asks::<u64>("token") > run.token);
        let stale = scene.transaction(run.token);
        let stale = stale.expect_err("the token is stale").to_string();
        assert!(stale.contains("1242"), "{stale}");
    });
}

#[test]
fn a_free_action_is_not_granted_either_while_a_transaction_goes_on() {
    everywhere(|mut scene| {
        let run = scene.holder();
        let mut transaction = scene.transaction(run.token).expect("the token is current");
        scene.let_go();
        // The release waits for nothing.
        run.running.wait().expect(0, "", "");
        assert_eq!(scene.asks::<u64>("claim IS NULL"), 1);
        scene
            .exec(&["-n", "--", "true"])
            .run()
            .expect(75, "", "fenced by a transaction");
        let next = scene.exec(&["--", "true"]).start();
        next.heard("init is free, but wanted by others or fenced by a transaction");
        transaction.query_drop("ROLLBACK").expect("rolls back");
        next.wait().expect(0, "", "fenced");
        scene.exec(&["-n", "--", "true"]).run().expect(0, "", "");
    });
}

#[test]
fn renewals_do_not_wait_for_the_transaction() {
    everywhere(|mut scene| {
        let run = scene.holder();
        let transaction = scene.transaction(run.token).expect("the token is current");
        eventually(
            "the lease was renewed for more than three of its lengths",
            || scene.asks::<u64>("TIMESTAMPDIFF(MICROSECOND,acquired_at,renewed_at)") > 7_000_000,
        );
        assert_eq!(scene.asks::<u64>("token"), run.token);
        let left: i64 = scene.asks("TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),expires_at)");
        assert!(left > 0, "{left} us left");
        scene.let_go();
        let outcome = run.running.wait();
        outcome.expect(0, "", "");
        drop(transaction);
    });
}

#[test]
fn an_action_without_a_fence_has_none_that_could_be_current() {
    everywhere(|mut scene| {
        scene.exec(&["--", "true"]).run().expect(0, "", "");
        let token = scene.asks("token");
        let refused = scene.transaction(token).expect_err("there is no fence");
        assert!(refused.to_string().contains("1242"), "{refused}");
    });
}
