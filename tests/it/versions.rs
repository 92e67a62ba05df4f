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

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::command::{Stage, read_message, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};

use crate::doctor::{Findings, execute};
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
    let database = shared(flavour).database("versions");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    assert_eq!(recorded(&database), [(3, 1)], "{flavour}");
    database
}

/// Returns `version` and `min_version` of each row of `dlock_schema`.
#[track_caller]
fn recorded(database: &Database) -> Vec<(u32, u32)> {
    let rows = "SELECT version, min_version FROM dlock_schema";
    let rows = database.admin_conn().query(rows);
    rows.expect("the table exists")
}

/// Returns the definitions of all tables except their counters.
#[track_caller]
fn definitions(database: &Database) -> Vec<String> {
    let mut admin = database.admin_conn();
    let tables: Vec<String> = admin.query("SHOW TABLES").expect("root has the privilege");
    let definition = |table: String| {
        let row: Option<(String, String)> = admin
            .query_first(format!("SHOW CREATE TABLE {table}"))
            .expect("root has the privilege");
        let (_, text) = row.expect("the table exists");
        let lines = text.lines().filter(|line| !line.starts_with(')'));
        lines.collect::<Vec<_>>().join("\n")
    };
    tables.into_iter().map(definition).collect()
}

#[test]
fn too_old_tables_are_refused_and_not_changed() {
    for flavour in Flavour::ALL {
        let database = set_up(flavour);
        let before = definitions(&database);
        for arguments in [
            vec!["exec", "-a", "init", "--", "echo", "ran"],
            vec!["exec", "-a", "init", "--once", "--", "echo", "ran"],
            vec!["status"],
            vec!["history"],
            vec!["wait", "init"],
            vec!["forget", "-a", "init", "--once"],
        ] {
            let outcome = next(&database, arguments).run();
            outcome.expect(
                78,
                "",
                "the tables have schema version 3, but this dlock needs 4: run dlock setup with this version \
                 of dlock and an account that may alter tables",
            );
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
    }
}

#[test]
fn tables_that_need_a_newer_program_are_refused_and_not_changed() {
    for flavour in Flavour::ALL {
        let database = set_up(flavour);
        next(&database, ["setup", "-q"]).run().expect(0, "", "");
        execute(&database, "UPDATE dlock_schema SET min_version=4");
        let before = definitions(&database);
        for arguments in [
            vec!["exec", "-a", "init", "--", "echo", "ran"],
            vec!["status"],
            vec!["setup"],
        ] {
            let outcome = Dlock::on(&database, arguments).run();
            outcome.expect(
                78,
                "",
                "the tables need a dlock with schema version 4 or later, but this dlock has 3: use a newer dlock",
            );
        }
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(4, 4)], "{flavour}");
        next(&database, ["exec", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(0, "ran\n", "");
    }
}

#[test]
fn a_waiter_checks_the_version_again_when_its_turn_comes() {
    for flavour in Flavour::ALL {
        let database = set_up(flavour);
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2""#)
            .arg("sh")
            .args([&ready, &go])
            .start();
        assert_eq!(read_message(&ready), "up");
        let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        waiter.wait_for_output("init is held by");
        execute(&database, "UPDATE dlock_schema SET version=4,min_version=4");
        write_message(&go, "on");
        holder.wait().expect(0, "", "");
        waiter.wait().expect(78, "", "use a newer dlock");
    }
}

on_each_flavour!(a_holder_stops_its_command_if_the_tables_begin_to_need_a_newer_program);
fn a_holder_stops_its_command_if_the_tables_begin_to_need_a_newer_program(flavour: Flavour) {
    let database = set_up(flavour);
    let stage = Stage::new();
    let (ready, never) = (stage.fifo("ready"), stage.fifo("never"));
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--ttl=3s", "--"])
        .args(["sh", "-c", r#"echo up > "$1"; read word < "$2""#, "sh"])
        .args([&ready, &never])
        .start();
    assert_eq!(read_message(&ready), "up");
    execute(&database, "UPDATE dlock_schema SET version=4,min_version=4");
    holder.wait().expect(
        76,
        "",
        "cannot keep init: the tables need a dlock with schema version 4 or later",
    );
}

#[test]
fn an_older_program_works_with_columns_that_it_does_not_know() {
    for flavour in Flavour::ALL {
        let database = set_up(flavour);
        // A column at the front of a table shifts all other columns.
        for table in [
            "dlock_schema",
            "dlock_lock",
            "dlock_waiter",
            "dlock_success",
            "dlock_history",
            "dlock_fence",
            "dlock_slot",
        ] {
            for place in ["FIRST", ""] {
                let column = format!("newer_{} VARBINARY(9) NOT NULL DEFAULT 'x'", place.len());
                execute(
                    &database,
                    &format!("ALTER TABLE {table} ADD {column} {place}"),
                );
            }
        }
        execute(&database, "UPDATE dlock_schema SET version=9");
        let before = definitions(&database);
        let with_version = "the tables in versions_";
        for (arguments, stdout, stderr) in [
            (
                "setup",
                "",
                "have schema version 9, newer than 3 of this dlock",
            ),
            ("setup", "", with_version),
            ("exec -a init -- echo ran", "ran\n", ""),
            ("exec -a init --once -- echo ran", "ran\n", ""),
            ("exec -a init --once -- echo ran", "", "was done by"),
            ("exec -a init --fence -- echo ran", "ran\n", ""),
            ("exec -a init --once-per 1h -- echo ran", "", "was done by"),
            (
                "release -a init --yes --pause 1h --reason test",
                "",
                "init is paused",
            ),
            ("release -a init --yes --resume", "", "init"),
            ("forget -a init --once", "", "is forgotten"),
            ("wait init", "", ""),
        ] {
            let words = arguments.split(' ');
            let outcome = Dlock::on(&database, words).run();
            assert!(
                outcome.status == Some(0)
                    && outcome.stdout == stdout
                    && outcome.stderr.contains(stderr),
                "{flavour}, {arguments}: {outcome:#?}"
            );
        }
        for (arguments, text) in [("status init", "free"), ("history init", "exit 0")] {
            let outcome = Dlock::on(&database, arguments.split(' ')).run();
            assert!(
                outcome.status == Some(0) && outcome.stdout.contains(text),
                "{flavour}, {arguments}: {outcome:#?}"
            );
        }
        let findings = Findings::of(Dlock::on(&database, [""; 0]));
        findings.reports("tables", "ok", "schema version 9, newer than 3");
        findings.are_good_except(&[]);
        assert_eq!(definitions(&database), before, "{flavour}");
        assert_eq!(recorded(&database), [(9, 1)], "{flavour}");
    }
}
