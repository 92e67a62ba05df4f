//! Tests of dlock's tables. The first exec creates the tables, and no command changes existing tables.

use std::fs;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::shared;

use crate::faults::on_each;

/// The rows that no refused command may change.
type Rows = Vec<(Vec<u8>, u64, Option<Vec<u8>>)>;

#[test]
fn concurrent_first_execs_create_the_tables_and_all_run() {
    on_each(|flavour| {
        let database = shared(flavour).database("together");
        let stage = Stage::new();
        let count = stage.path("count");
        let count = count.to_str().expect("the path is UTF-8");
        let command = format!("read -r n <{count} || n=0; echo $((n + 1)) >{count}");
        fs::write(count, "0\n").expect("the folder is writable");
        let exec = ["exec", "-q", "-a", "init", "--", "sh", "-c", &command];
        let runs = [(); 8].map(|()| Dlock::on(&database, exec).start());
        for run in runs {
            run.wait().expect(0, "", "");
        }
        let ran = fs::read_to_string(count).expect("the file exists");
        assert_eq!(ran, "8\n", "{flavour}");
        let tables: Vec<String> = database.rows("SHOW TABLES");
        assert_eq!(
            tables.join(" "),
            "dlock_fence dlock_history dlock_lock dlock_schema dlock_slot dlock_success dlock_waiter",
            "{flavour}"
        );
        let versions: Vec<u32> = database.rows("SELECT version FROM dlock_schema");
        assert_eq!(versions, [3], "{flavour}");
    });
}

#[test]
fn existing_tables_are_not_changed_and_not_used_if_they_have_another_version() {
    on_each(|flavour| {
        let database = shared(flavour).database("version");
        let setup = || Dlock::on(&database, ["setup"]).run();
        let exec = |action| Dlock::on(&database, ["exec", "-a", action, "--", "echo", "ran"]).run();
        setup().expect(0, "", "the tables are in place");
        exec("init").expect(0, "ran\n", "");
        let rows = || -> Rows { database.rows("SELECT action, token, owner_id FROM dlock_lock") };
        let before = rows();
        assert_eq!(before.len(), 1, "{flavour}");
        setup().expect(0, "", "the tables are in place");
        assert_eq!(rows(), before, "{flavour}");
        for (version, advice) in [
            (
                "UPDATE dlock_schema SET version=4,min_version=4",
                "use a newer dlock",
            ),
            (
                "UPDATE dlock_schema SET version=0,min_version=0",
                "run dlock setup with this version of dlock",
            ),
            (
                "INSERT INTO dlock_schema VALUES (2,7,7)",
                "use a newer dlock",
            ),
            ("DELETE FROM dlock_schema", "run dlock setup"),
        ] {
            database.run(version);
            for action in ["init", "new"] {
                exec(action).expect(78, "", advice);
            }
            for words in ["status", "history", "forget -a init --once"] {
                Dlock::on(&database, words.split(' ')).expect(78, "", advice);
            }
            assert_eq!(rows(), before, "{flavour}, {version}");
        }
        // dlock setup, which the last message advises, fixes the tables.
        setup().expect(0, "", "the tables are in place");
        exec("init").expect(0, "ran\n", "");
    });
}
