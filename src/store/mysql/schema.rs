//! The tables, their version, and the privileges that accounts need on them.
//!
//! `schema.sql` is the only definition of the tables: `setup` runs it, `setup --print` prints it, and `exec` runs it if
//! the tables do not exist and the account may create them. `upgrade` lists the changes from each version to the next.
//!
//! `version` defines which versions of the program and of the tables work together.

#[cfg(feature = "mutants")]
mod next;
mod present;
mod upgrade;
mod version;

use self::present::PRESENT;
pub(super) use self::upgrade::{NewColumn, Upgrade};
pub(super) use self::version::{Schema, TablesVersion, VERSION_COLUMNS};
#[cfg(feature = "mutants")]
use crate::mutant::{self, Safeguard};

/// The version of the schema of this program.
pub const VERSION: u64 = present::PRESENT.version;

/// Returns the schema of this program.
pub(super) fn current() -> &'static Schema {
    #[cfg(feature = "mutants")]
    if mutant::is_disabled(Safeguard::PresentSchema) {
        return next::schema();
    }
    &PRESENT
}

/// Tables with the privileges that the account of `exec` needs.
const RUNTIME: [(&str, &str); 6] = [
    ("dlock_schema", "SELECT"),
    ("dlock_lock", "SELECT, INSERT, UPDATE"),
    ("dlock_waiter", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_success", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_history", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_fence", "SELECT, INSERT, UPDATE"),
];

/// Returns each pair of a table and a privilege that the account of `exec` needs on it.
pub(super) fn rights() -> impl Iterator<Item = (&'static str, &'static str)> {
    let each = |(table, rights): (&'static str, &'static str)| {
        rights.split(", ").map(move |right| (table, right))
    };
    RUNTIME.into_iter().flat_map(each)
}

/// Returns the GRANT statements for the account that runs `exec`, with the minimal privileges, one statement per line.
#[must_use]
pub fn runtime_grants(database: &str, account: &str) -> String {
    let database = quoted(database);
    RUNTIME
        .map(|(table, rights)| format!("GRANT {rights} ON {database}.{table} TO {account};\n"))
        .concat()
}

/// Returns the GRANT statement for the account that runs `setup`, with the minimal privileges. It includes the
/// privileges for upgrades if this version of dlock has upgrades.
#[must_use]
pub fn setup_grants(database: &str, account: &str) -> String {
    // In a GRANT on a whole database, _ and % are wildcards.
    let database = quoted(database).replace('_', "\\_").replace('%', "\\%");
    let for_upgrades = match current().upgrades {
        [] => "",
        _ => ", UPDATE, ALTER",
    };
    format!("GRANT CREATE, SELECT, INSERT{for_upgrades} ON {database}.* TO {account};\n")
}

/// Returns the output of `setup --print` for a database administrator: the definition of the tables and the GRANT
/// statements. The upgrades of existing tables are comments, because they must not be executed on new tables. The
/// privilege for Group Replication is also a comment, because MariaDB does not have the table.
#[must_use]
pub fn printout(database: &str) -> String {
    let schema = current();
    let ddl = schema.ddl;
    let upgrades = schema.upgrades_as_comments();
    let setup = setup_grants(database, "'dlock_setup'@'%'");
    let runtime = runtime_grants(database, "'dlock'@'%'");
    format!(
        "{ddl}\n{upgrades}\
         -- Privileges for the account that runs dlock setup:\n{setup}\n\
         -- Privileges for the account that runs dlock exec (for status, history, wait and check, SELECT is enough):\n\
         {runtime}\n\
         -- On members of a group (Group Replication), dlock also needs:\n\
         -- {}\n",
        group_grant("'dlock'@'%'")
    )
}

/// Returns the GRANT statement with which dlock can see the members of a group.
#[must_use]
pub(super) fn group_grant(account: &str) -> String {
    format!("GRANT SELECT ON performance_schema.replication_group_members TO {account};")
}

/// Returns `name` as a quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::{RUNTIME, current, runtime_grants};

    #[test]
    fn every_table_has_grants_and_ddl_records_the_version() {
        let schema = current();
        let tables = schema.ddl.matches("CREATE TABLE").count();
        assert_eq!(tables, RUNTIME.len());
        let min_version = schema.upgrades.last().map_or(1, |last| last.min_version);
        let version = schema.version;
        let recorded = format!("VALUES (1, {version}, {min_version});");
        assert!(schema.ddl.contains(&recorded), "{recorded}");
        assert!(runtime_grants("a`b", "u").contains("ON `a``b`.dlock_lock TO u;"));
    }

    #[test]
    fn version_is_recorded_before_the_other_tables_are_created() {
        let (first, rest) = current().creation();
        assert_eq!(first.matches("CREATE TABLE").count(), 1, "{first}");
        assert!(first.contains("dlock_schema (\n") && first.ends_with("1);\n"));
        assert_eq!(rest.matches("CREATE TABLE").count(), RUNTIME.len() - 1);
        assert!(!rest.contains("INSERT"), "{rest}");
    }
}
