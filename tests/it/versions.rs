//! Schema versions: upgrades by `dlock setup`, and programs of two versions on the same tables.
//!
//! The newer program is dlock with the next schema version (`src/store/mysql/schema/next.rs`), which writes a column that
//! dlock's tables do not have.
//!
//! - `together`: both programs compete for one action
//! - `upgrade`: the upgrade by `setup`, and its interruptions
//! - this file: which tables a program accepts

mod together;
mod upgrade;

use std::ffi::OsStr;

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::servers::{Database, Flavour, shared};

use crate::doctor::Findings;
use crate::faults::on_each;
use crate::mutants::{VARIABLE, program};

/// Returns the program of the next schema version, which connects to `database`.
fn next<S: AsRef<OsStr>>(database: &Database, arguments: impl IntoIterator<Item = S>) -> Dlock {
    Dlock::of(&program(), arguments)
        .env(VARIABLE, "schema")
        .env("DLOCK_URL", database.url())
}

/// Creates a database with the tables that dlock itself creates.
#[track_caller]
fn set_up(flavour: Flavour) -> Database {
    let database = shared(flavour).set_up("versions");
    assert_eq!(recorded(&database), [(3, 1)], "{flavour}");
    database
}

#[track_caller]
fn recorded(database: &Database) -> Vec<(u32, u32)> {
    database.rows("SELECT version, min_version FROM dlock_schema")
}

/// Returns the definitions of all tables except their counters.
#[track_caller]
fn definitions(database: &Database) -> Vec<String> {
    let tables = database.rows("SHOW TABLES").into_iter();
    let definition = |table: String| {
        let (_, text): (String, String) = database.value(format!("SHOW CREATE TABLE {table}"));
        let lines = text.lines().filter(|line| !line.starts_with(')'));
        lines.collect::<Vec<_>>().join("\n")
    };
    tables.map(definition).collect()
}

#[test]
fn tables_that_are_too_old_or_too_new_are_refused_and_not_changed() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let before = definitions(&database);
        let exec = "exec -a init -- echo ran";
        let old = "the tables have schema version 3, but this dlock needs 4: run dlock setup with this version \
             of dlock and an account that may alter tables";
        let once = "exec -a init --once -- echo ran";
        let forget = "forget -a init --once";
        for words in [exec, once, "status", "history", "wait init", forget] {
            next(&database, words.split(' ')).run().expect(78, "", old);
        }
        let findings = Findings::of(next(&database, [""; 0]));
        let fix = findings.reports("tables", "fail", "schema version 3, but this dlock needs 4");
        assert!(fix.contains("run dlock setup"), "{fix}");
        // The missing column is not reported, because `setup` adds it.
        findings.are_good_except(&["tables"]);
        let tables = findings.status("tables");
        assert_eq!(tables, ["fail"], "{flavour}: {findings:#?}");
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(3, 1)], "{flavour}");

        next(&database, ["setup", "-q"]).expect(0, "", "");
        database.run("UPDATE dlock_schema SET min_version=4");
        let before = definitions(&database);
        let new = "the tables need a dlock with schema version 4 or later, but this dlock has 3: use a newer dlock";
        for words in [exec, "status", "setup"] {
            Dlock::typed(&database, words).expect(78, "", new);
        }
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(4, 4)], "{flavour}");
        next(&database, exec.split(' ')).expect(0, "ran\n", "");
    });
}

#[test]
fn tables_without_one_version_are_not_used_and_setup_changes_no_row() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let run = |words: &str| Dlock::typed(&database, words).run();
        let exec = "exec -a init -- echo ran";
        run(exec).expect(0, "ran\n", "");
        let rows = || -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
            database.rows("SELECT action, token, owner_id FROM dlock_lock")
        };
        let before = rows();
        run("setup").expect(0, "", "the tables are in place");
        let second = "INSERT INTO dlock_schema VALUES (2,7,7)";
        for (change, advice) in [
            (second, "use a newer dlock"),
            ("DELETE FROM dlock_schema", "run dlock setup"),
        ] {
            database.run(change);
            let new = "exec -a new -- echo ran";
            for words in [exec, new, "status", "history", "forget -a init --once"] {
                run(words).expect(78, "", advice);
            }
            assert_eq!(rows(), before, "{flavour}, {change}");
        }
        // dlock setup, which the last message advises, fixes the tables.
        run("setup").expect(0, "", "the tables are in place");
        assert_eq!((rows(), recorded(&database)), (before, vec![(3, 1)]));
        run(exec).expect(0, "ran\n", "");
    });
}

#[test]
fn holders_and_waiters_stop_if_the_tables_begin_to_need_a_newer_program() {
    on_each(|flavour| {
        let database = set_up(flavour);
        // The ttl is long, so that the command ends before the next renewal.
        let healthy = Holder::on(&database, &["--ttl=10m"]);
        let lost = Holder::on(&database, &["--action=lost", "--ttl=6s"]);
        let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        waiter.wait_for_output("init is held by");
        database.run("UPDATE dlock_schema SET version=4,min_version=4");
        healthy.end().expect(3, "", "");
        // The waiter checks the version again when its turn comes.
        waiter.wait().expect(78, "", "use a newer dlock");
        let why = "cannot keep lost: the tables need a dlock with schema version 4 or later";
        lost.running.wait().expect(76, "", why);
    });
}

#[test]
fn an_older_program_works_with_columns_that_it_does_not_know() {
    on_each(|flavour| {
        let database = set_up(flavour);
        let tables: Vec<String> = database.rows("SHOW TABLES");
        assert_eq!(tables.len(), 7);
        // A column at the front of a table shifts all other columns.
        for table in tables {
            for place in ["FIRST", ""] {
                let column = format!("newer_{} VARBINARY(9) NOT NULL DEFAULT 'x'", place.len());
                database.run(format!("ALTER TABLE {table} ADD {column} {place}"));
            }
        }
        database.run("UPDATE dlock_schema SET version=9");
        let before = definitions(&database);
        let newer = "have schema version 9, newer than 3 of this dlock";
        let pause = "release -a init --yes --pause 1h --reason test";
        for (words, stdout, stderr) in [
            ("setup", "", newer),
            ("setup", "", "the tables in versions_"),
            ("exec -a init -- echo ran", "ran\n", ""),
            ("exec -a init --once -- echo ran", "ran\n", ""),
            ("exec -a init --once -- echo ran", "", "was done by"),
            ("exec -a init --fence -- echo ran", "ran\n", ""),
            ("exec -a init --once-per 1h -- echo ran", "", "was done by"),
            (pause, "", "init is paused"),
            ("release -a init --yes --resume", "", "init"),
            ("forget -a init --once", "", "is forgotten"),
            ("wait init", "", ""),
            ("status init", "free", ""),
            ("history init", "exit 0", ""),
        ] {
            let outcome = Dlock::typed(&database, words).run();
            let is_printed = match words {
                "status init" | "history init" => outcome.stdout.contains(stdout),
                _ => outcome.stdout == stdout && outcome.stderr.contains(stderr),
            };
            let is_good = outcome.status == Some(0) && is_printed;
            assert!(is_good, "{flavour}, {words}: {outcome:#?}");
        }
        let findings = Findings::of(Dlock::on(&database, [""; 0]));
        findings.reports("tables", "ok", "schema version 9, newer than 3");
        findings.are_good_except(&[]);
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(9, 1)], "{flavour}");
    });
}
