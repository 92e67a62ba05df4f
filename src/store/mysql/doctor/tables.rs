//! Checks that the tables in the database match the definitions in `schema.sql`. The server shows an account only the
//! tables on which the account has a privilege.

use std::collections::BTreeMap;

use super::super::schema::{self, Schema, TablesVersion};
use super::expected_schema::TableDefinition;
use super::grants::{Permission, Right};
use super::session::{QueryError, Session};
use crate::store::check::{Check, Finding};

/// The tables that exist on the server, each with its parts, as in [`TableDefinition::parts`]. If a column must be set in
/// each new row, it is a part twice: the second part begins with [`REQUIRED`].
pub(super) type PresentTables = BTreeMap<String, Vec<String>>;

const REQUIRED: &str = "required column ";

/// Queries the server for the first two rows of `dlock_schema`. Returns None if the server refuses the query, for
/// example because the table or a column does not exist, or because the account may not read the table.
pub(super) fn query_versions(
    session: &mut Session,
) -> Result<Option<Vec<TablesVersion>>, QueryError> {
    let rows = match session.query("SELECT version,min_version FROM dlock_schema LIMIT 2;") {
        Ok(sets) => sets.into_iter().flatten(),
        Err(QueryError::Refused(_)) => return Ok(None),
        Err(lost) => return Err(lost),
    };
    let number = |cell: &Option<String>| cell.as_deref()?.parse().ok();
    let version = |row: Vec<Option<String>>| {
        Some(TablesVersion {
            version: number(row.first()?)?,
            min_version: number(row.get(1)?)?,
        })
    };
    Ok(Some(rows.filter_map(version).collect()))
}

/// Queries the server for the tables in `wanted`.
pub(super) fn query(
    session: &mut Session,
    wanted: &[TableDefinition],
) -> Result<PresentTables, QueryError> {
    let names: Vec<&str> = wanted.iter().map(|table| table.name).collect();
    let of = format!(
        "WHERE table_schema=DATABASE() AND table_name IN ('{}')",
        names.join("','")
    );
    let sets = session.query(&format!(
        "SELECT table_name,'engine',engine FROM information_schema.tables {of};\
         SELECT table_name,'column',column_name,column_type,IF(is_nullable='YES','null','not null'),\
         IF(extra LIKE '%auto_increment%','auto_increment',NULL) FROM information_schema.columns {of};\
         SELECT table_name,'required column',column_name FROM information_schema.columns {of} \
         AND is_nullable='NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%';\
         SELECT table_name,IF(non_unique,'key','unique key'),\
         CONCAT('(',GROUP_CONCAT(column_name ORDER BY seq_in_index),')') \
         FROM information_schema.statistics {of} GROUP BY table_name,index_name,non_unique;"
    ))?;
    let mut present = PresentTables::new();
    for row in sets.into_iter().flatten() {
        let mut cells = row.into_iter().flatten();
        let parts = present.entry(cells.next().unwrap_or_default());
        let words: Vec<String> = cells.collect();
        let part = without_width(&words.join(" ").to_lowercase());
        parts.or_default().push(part);
    }
    Ok(present)
}

/// Removes the display width, which MariaDB and old versions of MySQL return for integers.
fn without_width(part: &str) -> String {
    match part.split_once('(') {
        Some((start, rest)) if start.ends_with("int") => {
            let (_, end) = rest.split_once(')').unwrap_or_default();
            format!("{start}{end}")
        }
        _ => part.to_owned(),
    }
}

/// Judges the existing tables. `versions` are the rows of `dlock_schema`, or None if they are unknown. `may_create` is
/// true if this account may create the missing tables, as far as doctor knows.
pub(super) fn judge(
    wanted: &[TableDefinition],
    present: &PresentTables,
    versions: Option<&[TablesVersion]>,
    rights: &[Right],
    may_create: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut missing, mut hidden) = (Vec::new(), Vec::new());
    for table in wanted {
        match present.get(table.name) {
            Some(parts) => findings.extend(differences(table, parts)),
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

fn missing_tables(missing: &[&str], may_create: bool) -> Finding {
    let fact = format!("missing: {}", missing.join(", "));
    match may_create {
        true => Finding::warn(
            Check::Tables,
            fact,
            "the first dlock exec creates them; dlock status has nothing to show until then",
            "run dlock setup",
        ),
        false => Finding::fail(
            Check::Tables,
            fact,
            "dlock keeps the locks and the queue in them, and creates them only if its account may create tables",
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

/// Returns the differences between a table that has the parts `present` and its definition.
fn differences(table: &TableDefinition, present: &[String]) -> Vec<Finding> {
    let name = table.name;
    let missing = table.parts.iter().filter(|part| !present.contains(part));
    let missing = missing.map(|part| {
        let fact = format!("{name} does not have: {part}");
        let fix = format!(
            "compare SHOW CREATE TABLE {name} with the definition that dlock setup --print prints, and change the table \
             with ALTER TABLE"
        );
        match part.starts_with("key ") {
            true => Finding::warn(
                Check::Tables,
                fact,
                "queries that use this key read the whole table",
                fix,
            ),
            false => Finding::fail(
                Check::Tables,
                fact,
                "an action could have two holders, names that differ only in case could be the same lock, values could \
                 be changed or refused, or a crash could lose grants",
                fix,
            ),
        }
    });
    let required = present
        .iter()
        .filter_map(|part| part.strip_prefix(REQUIRED));
    let foreign = required.filter(|column| !table.columns.contains(column));
    let foreign = foreign.map(|column| {
        Finding::fail(
            Check::Tables,
            format!("{name} has a column {column}, which needs a value"),
            "dlock does not set this column, so the server refuses the rows that dlock inserts",
            "drop the column, or give it a default value",
        )
    });
    missing.chain(foreign).collect()
}

#[cfg(test)]
mod tests {
    use super::super::expected_schema::tables_of;
    use super::{PresentTables, Schema, TablesVersion, judge, schema, without_width};
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
    fn good() -> PresentTables {
        let tables = tables_of(own()).into_iter();
        let tables = tables.map(|table| (table.name.to_owned(), table.parts));
        tables.collect()
    }

    #[track_caller]
    fn only_finding(present: &PresentTables) -> Finding {
        let findings = judge(&tables_of(own()), present, None, &[], false);
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        finding.clone()
    }

    #[test]
    fn each_part_is_missed() {
        for (table, parts) in good() {
            for at in 0..parts.len() {
                let mut present = good();
                let present_parts = present.get_mut(&table).expect("the table exists");
                let part = present_parts.remove(at);
                let finding = only_finding(&present);
                assert_eq!(finding.is_failure(), !part.starts_with("key "), "{part}");
                assert_eq!(finding.fact, format!("{table} does not have: {part}"));
            }
        }
    }

    #[test]
    fn a_foreign_column_fails_only_if_it_needs_a_value() {
        let mut present = good();
        let mut add = |part: &str| {
            let parts = present.get_mut("dlock_schema");
            parts.expect("the table exists").push(part.to_owned());
            only_finding(&present)
        };
        for part in ["column foreign int not null", "required column version"] {
            assert_eq!(add(part).status, CheckStatus::Ok, "{part}");
        }
        assert!(add("required column foreign").is_failure());
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
    fn integer_display_width_is_not_part_of_the_type() {
        assert_eq!(
            without_width("column pid bigint(20) unsigned null"),
            "column pid bigint unsigned null"
        );
        assert_eq!(without_width("varbinary(255) null"), "varbinary(255) null");
    }
}
