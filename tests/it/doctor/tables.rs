//! Findings about tables that differ from dlock's schema.

use testkit::on_each_series;
use testkit::servers::{Series, shared};

use super::{Findings, contents};

on_each_series!(an_altered_table_is_found);
fn an_altered_table_is_found(series: Series) {
    let database = shared(series).set_up("doctor");
    let position = "column position bigint unsigned not null auto_increment";
    let action =
        "MODIFY action VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL";
    let owner = "column owner_id varbinary(16) null";
    let no_null = "MODIFY owner_id VARBINARY(16) NOT NULL";
    let key = [("DROP KEY queue", "key (action,position)")];
    let waiter = [
        ("MODIFY position BIGINT UNSIGNED NOT NULL", position),
        ("DROP KEY owner_id", "unique key (owner_id)"),
    ];
    let expires_at = "column expires_at datetime(6) null";
    let lock = [
        ("ENGINE=MyISAM", "engine innodb"),
        (action, "column action varbinary(255) not null"),
        ("MODIFY expires_at DATETIME NULL", expires_at),
        (no_null, owner),
        ("DROP COLUMN note", "column note varbinary(1023) not null"),
    ];
    for (table, changes) in [
        ("dlock_waiter", &key[..]),
        ("dlock_waiter", &waiter),
        ("dlock_lock", &lock),
    ] {
        let alter: Vec<&str> = changes.iter().map(|(change, _)| *change).collect();
        let alter = format!("ALTER TABLE {table} {}", alter.join(", "));
        database.run(&alter);
        let findings = Findings::on(&database);
        findings.are_good_except(&["tables", "grants"]);
        for (_, missing) in changes {
            // A missing key only makes queries slow.
            let (status, code) = match missing.starts_with("key ") {
                true => ("warn", 0),
                false => ("fail", 78),
            };
            let fact = format!("{table} does not have: {missing}");
            let fix = findings.reports("tables", status, &fact);
            let show = format!("compare SHOW CREATE TABLE {table} with");
            assert!(fix.starts_with(&show), "{fix}");
            assert_eq!(findings.status, code, "{alter}: {findings:#?}");
        }
        assert_eq!(findings.status("tables").len(), changes.len());
        database.run(format!("DROP TABLE {table}"));
        database.set_up();
    }
    Findings::on(&database).are_good_except(&[]);
}

#[test]
fn tables_of_another_version_and_missing_tables_are_found() {
    for series in Series::ALL {
        let database = shared(series).database("doctor");
        let findings = Findings::on(&database);
        findings.reports("tables", "warn", "missing: dlock_schema, ");
        findings.reports("grants", "skip", "privileges cannot be tested");
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), []);

        let account = database.account("poor");
        let all = format!("SELECT, INSERT, UPDATE, DELETE ON `{}`.*", account.name);
        account.grant(&all);
        // The account cannot create them.
        let findings = Findings::on(&account);
        findings.reports("tables", "fail", "missing: dlock_schema, ");
        assert_eq!(findings.status, 78);
        assert_eq!(contents(&database), []);

        // If only one table is missing, doctor reports only that table.
        database.set_up();
        database.run("DROP TABLE dlock_waiter");
        let findings = Findings::on(&account);
        assert_eq!(findings.fact("tables"), "missing: dlock_waiter");

        database.set_up();
        let newer = "UPDATE dlock_schema SET version=99,min_version=99";
        let second = "INSERT INTO dlock_schema VALUES (2,98,98)";
        for (change, fact) in [
            (newer, "schema version 99"),
            ("UPDATE dlock_schema SET version=0", "schema version 99"),
            (second, "more than one row"),
            ("DELETE FROM dlock_schema", "dlock_schema is empty"),
        ] {
            database.run(change);
            let findings = Findings::on(&database);
            findings.reports("tables", "fail", fact);
            assert_eq!(findings.status, 78);
        }
        database.run("ALTER TABLE dlock_lock ADD seal INT NOT NULL");
        Findings::on(&database).reports("tables", "fail", "has a column seal");
    }
}
