//! Whether the tables are what dlock made.

use super::{Findings, contents, execute, set_up, stranger};
use crate::dlock::Dlock;
use crate::servers::{Database, Flavour, shared};

#[test]
fn an_altered_table_is_found_and_the_remedy_mends_it() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (alter, verdict, fact) in [
            (
                "ALTER TABLE dlock_lock ENGINE=MyISAM",
                "mend",
                "dlock_lock is MyISAM, not InnoDB",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY action VARCHAR(255) CHARACTER SET utf8mb4 \
                 COLLATE utf8mb4_general_ci NOT NULL",
                "mend",
                "dlock_lock.action is varchar(255) collate utf8mb4_general_ci not null",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY expires_at DATETIME NULL",
                "mend",
                "dlock_lock.expires_at is datetime, not datetime(6) null",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY claim VARBINARY(16) NOT NULL",
                "mend",
                "dlock_lock.claim is varbinary(16) not null",
            ),
            (
                "ALTER TABLE dlock_waiter MODIFY position BIGINT UNSIGNED NOT NULL",
                "mend",
                "dlock_waiter.position is bigint unsigned not null",
            ),
            (
                "ALTER TABLE dlock_lock DROP COLUMN note",
                "mend",
                "dlock_lock has no column note",
            ),
            (
                "ALTER TABLE dlock_waiter DROP KEY claim",
                "mend",
                "dlock_waiter has no unique key (claim)",
            ),
            (
                "ALTER TABLE dlock_waiter DROP KEY line",
                "note",
                "dlock_waiter has no key (action,position)",
            ),
        ] {
            execute(&database, alter);
            let findings = Findings::on(&database);
            let remedy = findings.tells("tables", verdict, fact);
            findings.are_good_except(&["tables", "grants"]);
            let status = if verdict == "mend" { 78 } else { 0 };
            assert_eq!(findings.status, status, "{alter}: {findings:#?}");
            execute(&database, &remedy);
            Findings::on(&database).are_good_except(&[]);
        }
    }
}

#[test]
fn a_table_of_another_version_is_found() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (change, fact) in [
            ("UPDATE dlock_schema SET version=99", "schema version 99"),
            ("INSERT INTO dlock_schema VALUES (98)", "more than one row"),
            ("DELETE FROM dlock_schema", "dlock_schema is empty"),
        ] {
            execute(&database, change);
            let findings = Findings::on(&database);
            findings.tells("tables", "mend", fact);
            assert_eq!(findings.status, 78);
        }
        let column = "ALTER TABLE dlock_lock ADD seal INT NOT NULL";
        execute(&database, column);
        Findings::on(&database).tells("tables", "mend", "has a column seal");
    }
}

#[test]
fn missing_tables_must_be_mended_only_where_the_account_cannot_create_them() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let findings = Findings::on(&database);
        findings.tells("tables", "note", "missing: dlock_schema, ");
        findings.tells("grants", "unchecked", "nothing to try them on");
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), []);

        let account = stranger(&database, "poor");
        let Database { name, user, .. } = &account;
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO '{user}'@'%'");
        execute(&database, &grant);
        let findings = Findings::on(&account);
        findings.tells("tables", "mend", "missing: dlock_schema, ");
        assert_eq!(findings.status, 78);
        assert_eq!(contents(&database), []);

        // One that is gone is told from those that are there.
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        execute(&database, "DROP TABLE dlock_waiter");
        let findings = Findings::on(&account);
        let fact = findings.checks.iter().find(|one| one["check"] == "tables");
        assert_eq!(fact.expect("it is there")["fact"], "missing: dlock_waiter");
    }
}
