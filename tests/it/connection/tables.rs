//! Tests of dlock's tables. The first exec creates the tables, and no command changes existing tables.

use std::fs;

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

#[test]
fn the_first_exec_in_an_empty_database_creates_the_tables() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("empty");
        Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(0, "ran\n", "");
        let tables: Vec<String> = database
            .admin_conn()
            .query("SHOW TABLES")
            .expect("root has the privilege");
        assert_eq!(
            tables,
            [
                "dlock_fence",
                "dlock_history",
                "dlock_lock",
                "dlock_schema",
                "dlock_slot",
                "dlock_success",
                "dlock_waiter"
            ],
            "{flavour}"
        );
        let versions: Vec<u32> = database
            .admin_conn()
            .query("SELECT version FROM dlock_schema")
            .expect("root has the privilege");
        assert_eq!(versions, [3], "{flavour}");
    }
}

#[test]
fn concurrent_first_execs_all_run() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("together");
        let stage = Stage::new();
        let count = stage.path("count");
        let count = count.to_str().expect("the path is UTF-8");
        let command = format!("read -r n <{count} || n=0; echo $((n + 1)) >{count}");
        fs::write(count, "0\n").expect("the folder is writable");
        let runs: Vec<_> = (0..8)
            .map(|_| {
                Dlock::on(
                    &database,
                    ["exec", "-q", "-a", "init", "--", "sh", "-c", &command],
                )
                .start()
            })
            .collect();
        for run in runs {
            let outcome = run.wait();
            assert_eq!(
                (outcome.status, &*outcome.stderr),
                (Some(0), ""),
                "{flavour}"
            );
        }
        assert_eq!(
            fs::read_to_string(count).expect("the file exists"),
            "8\n",
            "{flavour}"
        );
        let versions: Vec<u32> = database
            .admin_conn()
            .query("SELECT version FROM dlock_schema")
            .expect("root has the privilege");
        assert_eq!(versions, [3], "{flavour}");
    }
}

#[test]
fn setup_does_not_change_existing_tables() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("setup");
        let rows = || -> Vec<(Vec<u8>, u64)> {
            let rows = database
                .admin_conn()
                .query("SELECT action, token FROM dlock_lock");
            rows.expect("the table exists")
        };
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        let before = rows();
        assert_eq!(before.len(), 1, "{flavour}");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        assert_eq!(rows(), before, "{flavour}");
    }
}

#[test]
fn tables_of_another_version_are_not_used_or_changed() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("version");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        let rows = || -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
            let rows = database
                .admin_conn()
                .query("SELECT action, token, owner_id FROM dlock_lock");
            rows.expect("the table exists")
        };
        let before = rows();
        for (version, advice) in [
            (
                "UPDATE dlock_schema SET version = 4, min_version = 4",
                "use a newer dlock",
            ),
            (
                "UPDATE dlock_schema SET version = 0, min_version = 0",
                "run dlock setup with this version of dlock",
            ),
            (
                "INSERT INTO dlock_schema VALUES (2, 7, 7)",
                "use a newer dlock",
            ),
            ("DELETE FROM dlock_schema", "run dlock setup"),
        ] {
            database
                .admin_conn()
                .query_drop(version)
                .expect("root has the privilege");
            for action in ["init", "new"] {
                let outcome =
                    Dlock::on(&database, ["exec", "-a", action, "--", "echo", "ran"]).run();
                outcome.expect(78, "", advice);
            }
            for reader in [
                vec!["status"],
                vec!["history"],
                vec!["forget", "-a", "init", "--once"],
            ] {
                Dlock::on(&database, reader).run().expect(78, "", advice);
            }
            assert_eq!(rows(), before, "{flavour}, {version}");
        }
        // dlock setup, which the last message advises, fixes the tables.
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
    }
}
