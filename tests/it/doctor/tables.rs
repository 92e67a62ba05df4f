//! Findings about tables that differ from dlock's schema.

use testkit::cli_runner::Dlock;
use testkit::on_each_series;
use testkit::servers::{Database, Series, shared};

use super::{Findings, account_without_grants, contents, execute, set_up};

on_each_series!(an_altered_table_is_found);
fn an_altered_table_is_found(series: Series) {
    let database = set_up(shared(series));
    for (table, change, missing) in [
        ("dlock_lock", "ENGINE=MyISAM", "engine innodb"),
        (
            "dlock_lock",
            "MODIFY action VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
            "column action varbinary(255) not null",
        ),
        (
            "dlock_lock",
            "MODIFY expires_at DATETIME NULL",
            "column expires_at datetime(6) null",
        ),
        (
            "dlock_lock",
            "MODIFY owner_id VARBINARY(16) NOT NULL",
            "column owner_id varbinary(16) null",
        ),
        (
            "dlock_waiter",
            "MODIFY position BIGINT UNSIGNED NOT NULL",
            "column position bigint unsigned not null auto_increment",
        ),
        (
            "dlock_lock",
            "DROP COLUMN note",
            "column note varbinary(1023) not null",
        ),
        ("dlock_waiter", "DROP KEY owner_id", "unique key (owner_id)"),
        ("dlock_waiter", "DROP KEY queue", "key (action,position)"),
    ] {
        execute(&database, &format!("ALTER TABLE {table} {change}"));
        let findings = Findings::on(&database);
        let fact = format!("{table} does not have: {missing}");
        let (status, code) = match missing.starts_with("key ") {
            true => ("warn", 0),
            false => ("fail", 78),
        };
        let fix = findings.reports("tables", status, &fact);
        let show = format!("compare SHOW CREATE TABLE {table} with");
        assert!(fix.starts_with(&show), "{fix}");
        findings.are_good_except(&["tables", "grants"]);
        assert_eq!(findings.status, code, "{change}: {findings:#?}");
        execute(&database, &format!("DROP TABLE {table}"));
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        Findings::on(&database).are_good_except(&[]);
    }
}

#[test]
fn a_table_of_another_version_is_found() {
    for series in Series::ALL {
        let database = set_up(shared(series));
        for (change, fact) in [
            (
                "UPDATE dlock_schema SET version=99,min_version=99",
                "schema version 99",
            ),
            ("UPDATE dlock_schema SET version=0", "schema version 99"),
            (
                "INSERT INTO dlock_schema VALUES (2,98,98)",
                "more than one row",
            ),
            ("DELETE FROM dlock_schema", "dlock_schema is empty"),
        ] {
            execute(&database, change);
            let findings = Findings::on(&database);
            findings.reports("tables", "fail", fact);
            assert_eq!(findings.status, 78);
        }
        let column = "ALTER TABLE dlock_lock ADD seal INT NOT NULL";
        execute(&database, column);
        Findings::on(&database).reports("tables", "fail", "has a column seal");
    }
}

#[test]
fn missing_tables_fail_only_if_the_account_cannot_create_them() {
    for series in Series::ALL {
        let database = shared(series).database("doctor");
        let findings = Findings::on(&database);
        findings.reports("tables", "warn", "missing: dlock_schema, ");
        findings.reports("grants", "skip", "privileges cannot be tested");
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), []);

        let account = account_without_grants(&database, "poor");
        let Database { name, user, .. } = &account;
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO '{user}'@'%'");
        execute(&database, &grant);
        let findings = Findings::on(&account);
        findings.reports("tables", "fail", "missing: dlock_schema, ");
        assert_eq!(findings.status, 78);
        assert_eq!(contents(&database), []);

        // If only one table is missing, doctor reports only that table.
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        execute(&database, "DROP TABLE dlock_waiter");
        let findings = Findings::on(&account);
        let fact = findings.checks.iter().find(|one| one["check"] == "tables");
        assert_eq!(
            fact.expect("the check is reported")["fact"],
            "missing: dlock_waiter"
        );
    }
}
