//! Checks that the tables in the database match the definitions in `schema.sql`.

use super::super::schema::{self, Schema, TablesVersion};
use super::actual_schema::{Present, PresentColumn};
use super::expected_schema::{ColumnDefinition, IndexDefinition, TableDefinition};
use super::grants::{Permission, Right};
use crate::store::check::{Check, Finding};

/// Judges the existing tables. `may_create` is true if this account may create the missing tables, and None if this is
/// unknown.
pub(super) fn judge(
    wanted: &[TableDefinition],
    present: &Present,
    rights: &[Right],
    may_create: Option<bool>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut missing, mut hidden) = (Vec::new(), Vec::new());
    for table in wanted {
        let found = present.engines.iter().find(|(name, _)| name == table.name);
        match found {
            Some((_, engine)) => findings.extend(differences(table, engine, present)),
            None if is_hidden(table, rights) => hidden.push(table.name),
            None => missing.push(table.name),
        }
    }
    if !missing.is_empty() {
        findings.push(missing_tables(&missing, may_create));
    }
    if !hidden.is_empty() {
        let fact = format!("this account cannot see {}", hidden.join(", "));
        findings.push(Finding::skip(Check::Tables, fact));
    }
    let schema = schema::current();
    let versions = present.versions.as_deref();
    findings.extend(versions.and_then(|versions| version(schema, versions)));
    if findings.is_empty() {
        let fact = match versions {
            Some([one]) if one.version > schema.version => format!(
                "{} tables with schema version {}, newer than {} of this dlock, which works with them",
                wanted.len(),
                one.version,
                schema.version,
            ),
            _ => format!(
                "{} tables, which match the definitions of dlock",
                wanted.len()
            ),
        };
        findings.push(Finding::ok(Check::Tables, fact));
    }
    findings
}

/// Returns true if the account has no privilege on `table`. The server hides such a table from the account.
fn is_hidden(table: &TableDefinition, rights: &[Right]) -> bool {
    let mut rights = rights.iter().filter(|right| right.table == table.name);
    let is_missing = |right: &Right| right.permission == Permission::Missing;
    rights.next().is_some_and(is_missing) && rights.all(is_missing)
}

fn missing_tables(missing: &[&str], may_create: Option<bool>) -> Finding {
    let fact = format!("missing: {}", missing.join(", "));
    match may_create {
        Some(true) => Finding::warn(
            Check::Tables,
            fact,
            "the first dlock exec creates them; dlock status has nothing to show until then",
            "run dlock setup",
        ),
        known => Finding::fail(
            Check::Tables,
            fact,
            match known {
                Some(_) => {
                    "dlock keeps the locks and the queue in them, and this account may not create them"
                }
                None => {
                    "dlock keeps the locks and the queue in them; it is unknown whether this account may create \
                         them"
                }
            },
            "run dlock setup with an account that may create tables; dlock setup --print shows the tables and \
             the grants",
        ),
    }
}

/// Judges the rows of `dlock_schema` for a program with `schema`. Returns None if there is no problem. Newer tables
/// with which the program works are not a problem.
fn version(schema: &Schema, versions: &[TablesVersion]) -> Option<Finding> {
    let found = match versions {
        [] => None,
        [one] => Some(*one),
        _ => {
            return Some(Finding::fail(
                Check::Tables,
                "dlock_schema has more than one row",
                "the version of the tables is unknown",
                "delete all rows except the row with id 1",
            ));
        }
    };
    let mismatch = match (schema.check(found), found) {
        (Ok(()), Some(found)) if found.version < schema.version => {
            let fact = format!(
                "the tables have schema version {}, but this dlock has {}",
                found.version, schema.version
            );
            let why = "this dlock works with them, but a later version may not";
            let fix = "run dlock setup with an account that may alter tables";
            return Some(Finding::warn(Check::Tables, fact, why, fix));
        }
        (Ok(()), _) => return None,
        (Err(mismatch), _) => mismatch,
    };
    let why = "every dlock command refuses these tables";
    Some(Finding::fail(
        Check::Tables,
        mismatch.fact(),
        why,
        mismatch.fix(),
    ))
}

/// Returns a finding for each difference from `table`.
fn differences(table: &TableDefinition, engine: &str, present: &Present) -> Vec<Finding> {
    let name = table.name;
    let mut findings = Vec::new();
    if !engine.eq_ignore_ascii_case("innodb") {
        findings.push(Finding::fail(
            Check::Tables,
            match engine {
                "" => format!("{name} is a view"),
                engine => format!("{name} is {engine}, not InnoDB"),
            },
            "without transactions and row locks, a crash can lose grants, and different actions wait for each other",
            format!("ALTER TABLE {name} ENGINE=InnoDB;"),
        ));
    }
    let columns = || present.columns.iter().filter(|column| column.table == name);
    for column in &table.columns {
        let found = columns().find(|found| found.name == column.name);
        findings.extend(difference(name, column, found));
    }
    for found in columns() {
        let is_expected = table.columns.iter().any(|column| column.name == found.name);
        if !is_expected && !found.is_nullable && !found.has_default && !found.is_auto_increment {
            findings.push(Finding::fail(
                Check::Tables,
                format!("{name} has a column {}, which needs a value", found.name),
                "dlock does not set this column, so the server refuses the rows that dlock inserts",
                "drop the column, or give it a default value",
            ));
        }
    }
    let keys = present.keys_of(name);
    for key in &table.keys {
        if !keys.contains(key) {
            findings.push(no_key(name, key));
        }
    }
    findings
}

fn difference(
    table: &str,
    wanted: &ColumnDefinition,
    found: Option<&PresentColumn>,
) -> Option<Finding> {
    let ColumnDefinition {
        name, definition, ..
    } = wanted;
    let Some(found) = found else {
        return Some(Finding::fail(
            Check::Tables,
            format!("{table} has no column {name}"),
            "the server refuses statements that use this column",
            format!("ALTER TABLE {table} ADD {name} {definition};"),
        ));
    };
    let is_same = found.kind == wanted.kind
        && found.is_nullable == wanted.is_nullable
        && found.is_auto_increment == wanted.is_auto_increment;
    if is_same {
        return None;
    }
    let collation = match &found.collation {
        Some(name) => format!(" collate {name}"),
        None => String::new(),
    };
    let null = match found.is_nullable {
        true => "",
        false => " not null",
    };
    let why = match &found.collation {
        Some(_) => {
            "text is compared with this collation and not byte by byte: names that differ only in case \
                    or accents may be the same lock"
        }
        None => "values may not fit, or the server may change them when it stores them",
    };
    Some(Finding::fail(
        Check::Tables,
        format!(
            "{table}.{name} is {}{collation}{null}, not {}",
            found.kind,
            definition.to_lowercase()
        ),
        why,
        format!("ALTER TABLE {table} MODIFY {name} {definition};"),
    ))
}

fn no_key(table: &str, key: &IndexDefinition) -> Finding {
    let columns = key.columns.join(",");
    let (what, clause) = match key.is_unique {
        true => ("unique key", "UNIQUE"),
        false => ("key", "KEY"),
    };
    let fact = format!("{table} has no {what} ({columns})");
    let fix = format!("ALTER TABLE {table} ADD {clause} ({columns});");
    match key.is_unique {
        true => Finding::fail(
            Check::Tables,
            fact,
            "an action could have two rows and two holders, or a waiter could have two queue entries",
            fix,
        ),
        false => Finding::warn(
            Check::Tables,
            fact,
            "queries that use this key read the whole table",
            fix,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::actual_schema::{Present, PresentColumn, PresentKey};
    use super::super::expected_schema;
    use super::{Schema, TablesVersion, judge, schema};
    use crate::store::check::{CheckStatus, Finding};

    /// Returns the schema version of this program.
    fn own() -> u64 {
        schema::current().version
    }

    fn version(version: u64, min_version: u64) -> TablesVersion {
        TablesVersion {
            version,
            min_version,
        }
    }

    /// Returns tables that match `schema.sql`.
    fn good() -> Present {
        let mut present = Present::default();
        for table in expected_schema::tables() {
            let name = table.name;
            present.engines.push((name.to_owned(), "InnoDB".to_owned()));
            for column in &table.columns {
                present.columns.push(PresentColumn {
                    table: name.to_owned(),
                    name: column.name.to_owned(),
                    kind: column.kind.clone(),
                    collation: None,
                    is_nullable: column.is_nullable,
                    is_auto_increment: column.is_auto_increment,
                    has_default: false,
                });
            }
            for (number, key) in table.keys.iter().enumerate() {
                for column in &key.columns {
                    present.keys.push(PresentKey {
                        table: name.to_owned(),
                        name: number.to_string(),
                        is_unique: key.is_unique,
                        column: column.clone(),
                    });
                }
            }
        }
        present.versions = Some(vec![version(own(), 1)]);
        present
    }

    #[track_caller]
    fn only_finding(present: &Present) -> Finding {
        let findings = judge(&expected_schema::tables(), present, &[], None);
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        finding.clone()
    }

    #[test]
    fn tables_of_schema_sql_are_ok() {
        assert_eq!(only_finding(&good()).status, CheckStatus::Ok);
    }

    #[test]
    fn a_key_is_identified_by_its_columns_in_order() {
        let mut present = good();
        let queue_key: Vec<usize> = (0..present.keys.len())
            .filter(|&at| present.keys[at].table == "dlock_waiter" && !present.keys[at].is_unique)
            .collect();
        present.keys.swap(queue_key[0], queue_key[1]);
        let finding = only_finding(&present);
        assert!(
            matches!(finding.status, CheckStatus::Warn(_)),
            "{finding:?}"
        );
        assert!(finding.fact.contains("no key (action,position)"));
    }

    #[test]
    fn a_foreign_column_fails_only_if_it_needs_a_value() {
        let mut present = good();
        let mut foreign = present.columns[0].clone();
        foreign.name = "foreign".to_owned();
        foreign.has_default = true;
        present.columns.push(foreign);
        assert_eq!(only_finding(&present).status, CheckStatus::Ok);
        let last = present.columns.last_mut().expect("just pushed");
        last.has_default = false;
        assert!(only_finding(&present).is_failure());
    }

    #[test]
    fn schema_versions_that_dlock_refuses_fail() {
        let mut present = good();
        for versions in [
            vec![],
            vec![version(0, 1)],
            vec![version(own() + 1, own() + 1)],
            vec![version(own(), 1), version(own() + 1, 1)],
        ] {
            present.versions = Some(versions);
            assert!(only_finding(&present).is_failure());
        }
        present.versions = None;
        assert_eq!(only_finding(&present).status, CheckStatus::Ok);
    }

    #[test]
    fn newer_tables_that_dlock_works_with_are_ok() {
        let mut present = good();
        let newer = own() + 1;
        present.versions = Some(vec![version(newer, 1)]);
        let finding = only_finding(&present);
        assert_eq!(finding.status, CheckStatus::Ok);
        let fact = format!("schema version {newer}, newer than {}", own());
        assert!(finding.fact.contains(&fact), "{finding:?}");
    }

    #[test]
    fn older_tables_that_dlock_works_with_cause_a_warning() {
        let program = Schema {
            version: 3,
            required: 2,
            ..*schema::current()
        };
        let status = |found| super::version(&program, &[found]).map(|finding| finding.status);
        let warned = status(version(2, 1));
        assert!(matches!(warned, Some(CheckStatus::Warn(_))), "{warned:?}");
        let failed = status(version(1, 1));
        assert!(matches!(failed, Some(CheckStatus::Fail(_))), "{failed:?}");
        assert_eq!(status(version(3, 1)), None);
    }

    #[test]
    fn missing_tables_cause_a_warning_if_the_account_may_create_them() {
        let first_finding = |may_create| {
            let findings = judge(
                &expected_schema::tables(),
                &Present::default(),
                &[],
                may_create,
            );
            findings[0].clone()
        };
        assert!(matches!(
            first_finding(Some(true)).status,
            CheckStatus::Warn(_)
        ));
        assert!(first_finding(Some(false)).is_failure());
        assert!(first_finding(None).is_failure());
    }
}
