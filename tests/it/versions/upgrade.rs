//! `dlock setup` upgrades the tables in place.

use std::thread;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::servers::{Database, Flavour, SESSIONS, shared};
use testkit::sql::Sql;

use super::{definitions, next, recorded, set_up};
use crate::doctor::Findings;
use crate::faults::on_each;

/// The statement that the upgrade in these tests executes.
const COLUMN: &str = "ALTER TABLE dlock_history ADD COLUMN recorder TINYINT NOT NULL DEFAULT 3";

/// Waits until a session of the database's account executes a statement that starts with `start`.
#[track_caller]
fn executes(database: &Database, start: &str) {
    let user = &database.user;
    database.wait_until(format!(
        "COUNT(*)=1 FROM {SESSIONS} AS p WHERE user='{user}' AND info LIKE '{start}%'"
    ));
}

/// Starts a transaction and reads `dlock_history` in it, so that the table cannot be altered until the transaction
/// ends.
#[track_caller]
fn transaction(database: &Database) -> Conn {
    let mut transaction = database.admin_conn();
    transaction.run("BEGIN; SELECT COUNT(*) FROM dlock_history");
    transaction
}

/// Asserts that the tables are those that the next program creates, and that both programs work with them.
#[track_caller]
fn is_upgraded(database: &Database, flavour: Flavour) {
    let fresh = shared(flavour).database("fresh");
    next(&fresh, ["setup", "-q"]).expect(0, "", "");
    for (upgraded, fresh) in definitions(database).iter().zip(definitions(&fresh)) {
        let [mut upgraded, mut fresh]: [Vec<&str>; 2] =
            [upgraded, &fresh].map(|it| it.lines().collect());
        upgraded.sort_unstable();
        fresh.sort_unstable();
        assert_eq!(upgraded, fresh, "{flavour}");
    }
    assert_eq!(recorded(database), [(4, 1)], "{flavour}");
    Findings::of(next(database, [""; 0])).are_good_except(&[]);
    let exec = ["exec", "-a", "init", "--", "echo", "ran"];
    for dlock in [Dlock::on(database, exec), next(database, exec)] {
        dlock.expect(0, "ran\n", "");
    }
}

#[test]
fn setups_at_once_all_succeed_and_continue_an_interrupted_upgrade() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let setups = [(); 6].map(|()| next(&database, ["setup"]).start());
        for setup in setups {
            setup.wait().expect(0, "", "the tables are in place");
        }
        is_upgraded(&database, flavour);
        // The state after a crash of setup: the server has committed the new column, but not the new version.
        database.run("UPDATE dlock_schema SET version=3");
        let exec = next(&database, ["exec", "-a", "init", "--", "echo", "ran"]);
        exec.expect(78, "", "run dlock setup with this version of dlock");
        let setup = || next(&database, ["setup"]).run();
        setup().expect(0, "", "upgraded from schema version 3 to 4");
        is_upgraded(&database, flavour);
        setup().expect(0, "", "the tables are in place");
    });
}

#[test]
fn setup_waits_for_a_transaction_while_holders_continue() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let before = definitions(&database);
        let transaction = transaction(&database);
        let why = "a transaction of another session is using the table";
        next(&database, ["setup"]).expect(69, "", why);
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(3, 1)], "{flavour}");

        let setup = next(&database, ["setup"]).start();
        executes(&database, "ALTER TABLE dlock_history");
        // The release of this run inserts into the table.
        Dlock::typed(&database, "exec -a init -- echo ran").expect(0, "ran\n", "");
        drop(transaction);
        setup.wait().expect(0, "", "from schema version 3 to 4");
        is_upgraded(&database, flavour);
    });
}

#[test]
fn an_upgrade_by_another_program_during_setup_is_not_undone() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let transaction = transaction(&database);
        let setup = next(&database, ["setup"]).start();
        executes(&database, "ALTER TABLE dlock_history");
        let mut other = database.admin_conn();
        let other = thread::spawn(move || other.query_drop(COLUMN));
        // While setup sleeps, the other statement is the only one that waits for the table.
        executes(&database, "DO SLEEP");
        database.run("UPDATE dlock_schema SET version=5");
        drop(transaction);
        let outcome = other.join().expect("the thread does not panic");
        outcome.expect("the other program is first");
        setup.wait().expect(0, "", "the tables are in place");
        assert_eq!(recorded(&database), [(5, 1)], "{flavour}");
    });
}

#[test]
fn first_execs_of_two_versions_leave_usable_tables() {
    on_each(|flavour| {
        let database = shared(flavour).database("first");
        let exec = ["exec", "-q", "-a", "init", "--", "true"];
        let runs =
            [(); 4].map(|()| [Dlock::on(&database, exec), next(&database, exec)].map(Dlock::start));
        for run in runs.into_iter().flatten() {
            let outcome = run.wait();
            let is_refused = outcome.stderr.contains("run dlock setup with ");
            let is_good = outcome.status == Some(0) || (outcome.status == Some(78) && is_refused);
            assert!(is_good, "{flavour}: {outcome:#?}");
        }
        next(&database, ["setup"]).expect(0, "", "in place");
        is_upgraded(&database, flavour);
    });
}

/// Returns the lines that the next program prints with `setup --print` and that `select` selects.
#[track_caller]
fn printed(database: &Database, select: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let outcome = next(database, ["setup", "--print"]).run().exited(0);
    let lines: Vec<String> = outcome.stdout.lines().filter_map(select).collect();
    assert!(!lines.is_empty(), "{outcome:?}");
    lines
}

#[track_caller]
fn downgrade(database: &Database) {
    database.run(
        "ALTER TABLE dlock_lock DROP COLUMN sessions;\
         ALTER TABLE dlock_history DROP COLUMN sessions_ended, DROP COLUMN processes_killed, DROP COLUMN dlock_status, \
         DROP COLUMN waited_us, DROP COLUMN slot;\
         ALTER TABLE dlock_waiter DROP COLUMN waits_again, DROP COLUMN inside_action, DROP COLUMN inside_token;\
         UPDATE dlock_schema SET version=1",
    );
}

#[test]
fn tables_of_earlier_versions_are_upgraded_to_the_present_version() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let before = definitions(&database);
        let exec = || Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).run();
        let is_upgraded_from = |version| {
            let upgraded = format!("upgraded from schema version {version} to 3");
            Dlock::typed(&database, "setup").expect(0, "", &upgraded);
            assert_eq!(recorded(&database), [(3, 1)], "{flavour}");
            assert_eq!(definitions(&database), before, "{flavour}");
            exec().expect(0, "ran\n", "");
        };
        downgrade(&database);
        database.run("DROP TABLE dlock_slot");
        let advice = "the tables have schema version 1, but this dlock needs 2: run dlock setup";
        exec().expect(78, "", advice);
        let findings = Findings::of(Dlock::on(&database, [""; 0]));
        findings.reports("tables", "fail", "schema version 1");
        // A table is missing, so not all privileges can be tried.
        findings.are_good_except(&["tables", "grants"]);
        is_upgraded_from(1);

        // The tables of version 2 have no slots. An exclusive lease needs none.
        database.run(
            "DROP TABLE dlock_slot;ALTER TABLE dlock_history DROP COLUMN slot;\
             UPDATE dlock_schema SET version=2",
        );
        exec().expect(0, "ran\n", "");
        let advice = "have schema version 2: run dlock setup";
        Dlock::typed(&database, "exec init --shared -- true").expect(78, "", advice);
        let tables: Vec<String> = database.rows("SHOW TABLES LIKE 'dlock_slot'");
        assert_eq!(tables, [""; 0], "{flavour}");
        is_upgraded_from(2);
    });
}

#[test]
fn the_printed_statements_upgrade_the_tables() {
    on_each(|flavour| {
        let database = set_up(flavour);
        downgrade(&database);
        let statements = printed(&database, |line| {
            let statement = line.strip_prefix("-- ")?.strip_suffix(';')?;
            // The other comments are about accounts.
            let upgrades = ["UPDATE ", "ALTER TABLE "];
            let is_part = upgrades.iter().any(|start| statement.starts_with(start));
            is_part.then(|| statement.to_owned())
        });
        assert!(statements.iter().any(|one| one == COLUMN), "{statements:?}");
        database.run(statements.join(";"));
        is_upgraded(&database, flavour);
    });
}

#[test]
fn the_printed_grant_is_needed_and_enough_for_an_upgrade() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let account = database.account("alter");
        let [grant] = &printed(&database, |line| {
            let grant = line.strip_prefix("-- ")?;
            let grant = grant.strip_suffix("'dlock_setup'@'%';")?;
            Some(format!("{grant}'{}'@'%'", account.user))
        })[..] else {
            panic!("not one grant");
        };
        let lesser = grant.replace(", ALTER", "");
        assert_ne!(grant, &lesser);
        database.run(&lesser);
        let advice = "run dlock setup with an account that may alter tables \
                      (GRANT CREATE, SELECT, INSERT, UPDATE, ALTER ON";
        let setup = || next(&account, ["setup"]).run();
        setup().expect(77, "", advice);
        database.run(grant);
        setup().expect(0, "", "upgraded from schema version 3 to 4");
        is_upgraded(&database, flavour);
    });
}
