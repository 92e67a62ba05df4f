//! Whether the tables in the database are those of `schema.sql`, as the server understands them.

use super::super::schema;
use super::definition::{Column, Key, Table};
use super::grants::{Permission, Right};
use super::present::{Present, PresentColumn};
use crate::store::finding::{Check, Finding};

/// Judges what is there; `may_create` tells whether our account could create what is missing.
pub(super) fn judge(
    wanted: &[Table],
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
        findings.push(absent(&missing, may_create));
    }
    if !hidden.is_empty() {
        let fact = format!("this account does not see {}", hidden.join(", "));
        findings.push(Finding::unchecked(Check::Tables, fact));
    }
    findings.extend(present.versions.as_deref().and_then(version));
    if findings.is_empty() {
        let fact = format!("{}, as dlock makes them", wanted.len());
        findings.push(Finding::ok(Check::Tables, fact));
    }
    findings
}

/// The server hides a table from an account without any right on it.
fn is_hidden(table: &Table, rights: &[Right]) -> bool {
    let mut rights = rights.iter().filter(|right| right.table == table.name);
    let is_missing = |right: &Right| right.permission == Permission::Missing;
    rights.next().is_some_and(is_missing) && rights.all(is_missing)
}

fn absent(missing: &[&str], may_create: Option<bool>) -> Finding {
    let fact = format!("missing: {}", missing.join(", "));
    match may_create {
        Some(true) => Finding::note(
            Check::Tables,
            fact,
            "the first dlock exec creates them; dlock status has nothing to show until then",
            "run dlock setup",
        ),
        known => Finding::mend(
            Check::Tables,
            fact,
            match known {
                Some(_) => {
                    "dlock keeps locks and line in them, and this account may not create them"
                }
                None => {
                    "dlock keeps locks and line in them; whether this account may create them is \
                         not known"
                }
            },
            "run dlock setup with an account that may; dlock setup --print shows tables and grants",
        ),
    }
}

fn version(versions: &[String]) -> Option<Finding> {
    let known = schema::VERSION;
    if versions == [known.to_string()] {
        return None;
    }
    let (fact, remedy) = match versions {
        [] => ("dlock_schema is empty".to_owned(), "run dlock setup"),
        [one] => (
            format!("the tables have schema version {one}, this dlock knows {known}"),
            "use the dlock that made the tables, or give this one a database of its own",
        ),
        _ => (
            "dlock_schema has more than one row".to_owned(),
            "delete all but the version of the dlock that made the tables",
        ),
    };
    let why = "every command of dlock refuses tables of another version";
    Some(Finding::mend(Check::Tables, fact, why, remedy))
}

/// All that is not as `table` says.
fn differences(table: &Table, engine: &str, present: &Present) -> Vec<Finding> {
    let name = table.name;
    let mut findings = Vec::new();
    if !engine.eq_ignore_ascii_case("innodb") {
        findings.push(Finding::mend(
            Check::Tables,
            match engine {
                "" => format!("{name} is a view"),
                engine => format!("{name} is {engine}, not InnoDB"),
            },
            "without transactions and row locks a crash loses grants, and holders wait for each other",
            format!("ALTER TABLE {name} ENGINE=InnoDB;"),
        ));
    }
    let columns = || present.columns.iter().filter(|column| column.table == name);
    for column in &table.columns {
        let found = columns().find(|found| found.name == column.name);
        findings.extend(difference(name, column, found));
    }
    for found in columns() {
        let is_ours = table.columns.iter().any(|column| column.name == found.name);
        if !is_ours && !found.is_nullable && !found.has_default && !found.counts {
            findings.push(Finding::mend(
                Check::Tables,
                format!("{name} has a column {}, which needs a value", found.name),
                "dlock does not know it, so its rows are refused",
                format!("ALTER TABLE {name} DROP COLUMN of that name, or give it a default."),
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

fn difference(table: &str, wanted: &Column, found: Option<&PresentColumn>) -> Option<Finding> {
    let Column {
        name, definition, ..
    } = wanted;
    let Some(found) = found else {
        return Some(Finding::mend(
            Check::Tables,
            format!("{table} has no column {name}"),
            "statements that name it are refused",
            format!("ALTER TABLE {table} ADD {name} {definition};"),
        ));
    };
    let is_same = found.kind == wanted.kind
        && found.is_nullable == wanted.is_nullable
        && found.counts == wanted.counts;
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
            "texts are compared by that collation and not as bytes: names that differ in case \
                    or accents may be one lock"
        }
        None => "values may not fit, or be changed on the way in",
    };
    Some(Finding::mend(
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

fn no_key(table: &str, key: &Key) -> Finding {
    let columns = key.columns.join(",");
    let (what, clause) = match key.is_unique {
        true => ("unique key", "UNIQUE"),
        false => ("key", "KEY"),
    };
    let fact = format!("{table} has no {what} ({columns})");
    let remedy = format!("ALTER TABLE {table} ADD {clause} ({columns});");
    match key.is_unique {
        true => Finding::mend(
            Check::Tables,
            fact,
            "an action could have two rows, and two holders, or a waiter two places",
            remedy,
        ),
        false => Finding::note(
            Check::Tables,
            fact,
            "each look reads the whole table",
            remedy,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition;
    use super::super::present::{Present, PresentColumn, PresentKey};
    use super::judge;
    use crate::store::finding::{Finding, Verdict};

    /// What a server says that has all as it should be.
    fn good() -> Present {
        let mut present = Present::default();
        for table in definition::tables() {
            let name = table.name;
            present.engines.push((name.to_owned(), "InnoDB".to_owned()));
            for column in &table.columns {
                present.columns.push(PresentColumn {
                    table: name.to_owned(),
                    name: column.name.to_owned(),
                    kind: column.kind.clone(),
                    collation: None,
                    is_nullable: column.is_nullable,
                    counts: column.counts,
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
        present.versions = Some(vec![super::schema::VERSION.to_string()]);
        present
    }

    #[track_caller]
    fn only(present: &Present) -> Finding {
        let findings = judge(&definition::tables(), present, &[], None);
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        finding.clone()
    }

    #[test]
    fn what_dlock_makes_is_good() {
        assert_eq!(only(&good()).verdict, Verdict::Ok);
    }

    #[test]
    fn a_key_is_known_by_its_columns_in_their_order() {
        let mut present = good();
        let line: Vec<usize> = (0..present.keys.len())
            .filter(|&at| present.keys[at].table == "dlock_waiter" && !present.keys[at].is_unique)
            .collect();
        present.keys.swap(line[0], line[1]);
        let finding = only(&present);
        assert!(matches!(finding.verdict, Verdict::Note(_)), "{finding:?}");
        assert!(finding.fact.contains("no key (action,position)"));
    }

    #[test]
    fn a_column_of_somebody_else_matters_only_if_it_needs_a_value() {
        let mut present = good();
        let mut foreign = present.columns[0].clone();
        foreign.name = "foreign".to_owned();
        foreign.has_default = true;
        present.columns.push(foreign);
        assert_eq!(only(&present).verdict, Verdict::Ok);
        let last = present.columns.last_mut().expect("just pushed");
        last.has_default = false;
        assert!(only(&present).is_mend());
    }

    #[test]
    fn the_version_must_be_this_one() {
        let mut present = good();
        for versions in [&[][..], &["2"], &["1", "2"]] {
            present.versions = Some(versions.iter().map(|one| (*one).to_owned()).collect());
            assert!(only(&present).is_mend());
        }
        present.versions = None;
        assert_eq!(only(&present).verdict, Verdict::Ok);
    }

    #[test]
    fn missing_tables_are_the_first_runs_business_if_it_may() {
        let judged = |may_create| {
            let findings = judge(&definition::tables(), &Present::default(), &[], may_create);
            findings[0].clone()
        };
        assert!(matches!(judged(Some(true)).verdict, Verdict::Note(_)));
        assert!(judged(Some(false)).is_mend());
        assert!(judged(None).is_mend());
    }
}
