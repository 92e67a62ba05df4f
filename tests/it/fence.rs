//! Tests of fencing: `dlock check`, and the command's transactions, which delay the next grant.

use mysql::Conn;
use mysql::prelude::{FromValue, Queryable};
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::each_server::set_up;
use testkit::holder::{Holder, token};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour};
use testkit::sql::{Sql, connect};

/// A database with dlock's tables and a table that belongs to the command.
struct Scene {
    database: Database,
}

impl Scene {
    fn on(flavour: Flavour) -> Self {
        let database = set_up(flavour);
        database.run("CREATE TABLE site (id INT PRIMARY KEY, state TEXT)");
        Self { database }
    }

    fn exec(&self, options: &[&str]) -> Dlock {
        Dlock::on(&self.database, ["exec", "-a", "init", "--ttl=6s"]).args(options)
    }

    /// Starts a holder with a fence. Returns it and its token.
    fn holder(&self) -> (Holder, u64) {
        let holder = Holder::on(&self.database, &["--fence", "--ttl=6s"]);
        (holder, token(&self.database))
    }

    /// Returns the check statement for `token`, which a command runs in its transaction.
    fn statement(&self, token: u64) -> String {
        let outcome = Dlock::on(&self.database, ["check", "--sql", "--action=init"])
            .env("DLOCK_TOKEN", token.to_string())
            .run();
        outcome.stdout
    }

    /// Opens a transaction and runs the check statement for `token` in the transaction. The account of the transaction
    /// can read the table `dlock_fence` and none of dlock's other tables.
    ///
    /// # Errors
    ///
    /// Returns the server's error if `token` is not current.
    fn transaction(&self, token: u64) -> Result<Conn, mysql::Error> {
        let name = &self.database.name;
        let other = self.database.account("m");
        other.grant(&format!("SELECT ON `{name}`.dlock_fence"));
        other.grant(&format!("SELECT, INSERT ON `{name}`.site"));
        let mut transaction = connect(&other.url()).expect("the account can connect");
        transaction.query_drop("BEGIN")?;
        // If the token is stale, the statement fails when the row is read, not when the query starts.
        let fence: Option<String> = transaction.query_first(self.statement(token))?;
        assert_eq!(fence.as_deref(), Some("current"));
        Ok(transaction)
    }

    fn column<T: FromValue>(&self, column: &str) -> T {
        self.database.value(format!(
            "SELECT {column} FROM dlock_lock WHERE action='init'"
        ))
    }

    fn check(&self, token: u64) -> Dlock {
        Dlock::on(&self.database, ["check"])
            .env("DLOCK_ACTION", "init")
            .env("DLOCK_TOKEN", token.to_string())
    }
}

fn everywhere(test: impl Fn(Scene)) {
    for flavour in Flavour::ALL {
        test(Scene::on(flavour));
    }
}

#[test]
fn check_returns_0_only_for_the_current_token() {
    everywhere(|scene| {
        let (holder, token) = scene.holder();
        let check = |token| scene.check(token).run();
        check(token).expect(0, "", "");
        check(token - 1).expect(76, "", "is not current: init is held by ");
        holder.end().expect(3, "", "");
        check(token).expect(76, "", "is not current: init is free (last token ");
        let inside = scene.exec(&["--", env!("CARGO_BIN_EXE_dlock"), "check"]);
        inside.expect(0, "", "");
        let last: u64 = scene.column("token");
        scene.exec(&["--min-hold=1h", "--", "true"]).run();
        let held = scene.column("token");
        assert!(held > last);
        scene.check(held).expect(76, "", "held for --min-hold");
    });
    Dlock::new(["check", "-a", "init"]).expect(64, "", "--token");
}

on_each_flavour!(a_take_over_waits_for_a_fenced_transaction_and_makes_the_old_token_stale);
fn a_take_over_waits_for_a_fenced_transaction_and_makes_the_old_token_stale(flavour: Flavour) {
    let scene = Scene::on(flavour);
    let (holder, token) = scene.holder();
    let mut transaction = scene.transaction(token).expect("the token is current");
    holder.running.crash();
    // One contender uses --fence, and the other contender does not.
    let files = Stage::new();
    let log = files.path("log");
    let script = r#"echo "$DLOCK_HOLDER" >> "$1""#;
    let next = [&["--holder=fenced", "--fence"][..], &["--holder=plain"]].map(|options| {
        let next = scene.exec(options).args(["--", "sh", "-c", script, "sh"]);
        let next = next.arg(&log).start();
        next.wait_for_output("init is held by ");
        next
    });
    let expired = "expires_at<UTC_TIMESTAMP(6)-INTERVAL 6 SECOND FROM dlock_lock";
    scene.database.wait_until(expired);
    scene.exec(&["-n", "--", "true"]).expect(75, "", "init is ");
    assert_eq!(scene.column::<u64>("token"), token, "granted too early");
    transaction.run("INSERT INTO site VALUES (1,'done'); COMMIT");
    for next in next {
        next.wait().expect(0, "", "init ");
    }
    let holders = std::fs::read_to_string(log).expect("both contenders ran");
    assert_eq!(holders.lines().count(), 2, "{holders}");
    assert!(scene.column::<u64>("token") > token);
    let stale = scene.transaction(token);
    let stale = stale.expect_err("the token is stale").to_string();
    assert!(stale.contains("1242"), "{stale}");
}

#[test]
fn a_free_action_is_not_granted_during_a_fenced_transaction() {
    everywhere(|scene| {
        // Without a fence, no token is current.
        scene.exec(&["--", "true"]).expect(0, "", "");
        let refused = token(&scene.database);
        let refused = scene.transaction(refused).expect_err("there is no fence");
        assert!(refused.to_string().contains("1242"), "{refused}");

        let (holder, token) = scene.holder();
        let mut transaction = scene.transaction(token).expect("the token is current");
        // The release does not wait for the transaction.
        holder.end().expect(3, "", "");
        assert_eq!(scene.column::<u64>("owner_id IS NULL"), 1);
        let at_once = |scene: &Scene| scene.exec(&["-n", "--", "true"]).run();
        at_once(&scene).expect(75, "", "fenced by a transaction");
        let next = scene.exec(&["--", "true"]).start();
        next.wait_for_output(
            "init is free, but others are waiting for it, or it is fenced by a transaction",
        );
        transaction.run("ROLLBACK");
        next.wait().expect(0, "", "fenced");
        at_once(&scene).expect(0, "", "");
    });
}

on_each_flavour!(renewals_do_not_wait_for_the_transaction);
fn renewals_do_not_wait_for_the_transaction(flavour: Flavour) {
    let scene = Scene::on(flavour);
    let (holder, token) = scene.holder();
    let _transaction = scene.transaction(token).expect("the token is current");
    // The lease is renewed for two ttls.
    let long = "TIMESTAMPDIFF(MICROSECOND,acquired_at,renewed_at)>12000000 FROM dlock_lock";
    scene.database.wait_until(long);
    assert_eq!(scene.column::<u64>("token"), token);
    let left: i64 = scene.column("TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),expires_at)");
    assert!(left > 0, "{left} us left");
    holder.end().expect(3, "", "");
}
