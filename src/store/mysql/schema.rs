//! The tables, their version, and the grants that they need.
//!
//! `schema.sql` is the only definition: `setup` runs it, `setup --print` prints it, and the first `exec` runs it if its
//! account may create tables.

/// Version of `schema.sql`. A database with another version is not changed.
pub(super) const VERSION: u64 = 1;

/// Definition of the tables: several statements, separated by semicolons. A repetition changes nothing.
///
/// `dlock_lock` comes last, so that no lease can be acquired before the version is recorded.
pub(super) const DDL: &str = include_str!("schema.sql");

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

/// Returns the minimal grants for the account that runs `exec`, one statement per line.
#[must_use]
pub fn runtime_grants(database: &str, account: &str) -> String {
    let database = quoted(database);
    RUNTIME
        .map(|(table, rights)| format!("GRANT {rights} ON {database}.{table} TO {account};\n"))
        .concat()
}

/// Returns the minimal grant for the account that runs `setup`: one statement.
#[must_use]
pub fn setup_grants(database: &str, account: &str) -> String {
    // In a grant on a whole database, _ and % are wildcards.
    let database = quoted(database).replace('_', "\\_").replace('%', "\\%");
    format!("GRANT CREATE, SELECT, INSERT ON {database}.* TO {account};\n")
}

/// Returns the output of `setup --print`: definition and grants for a database administrator.
#[must_use]
pub fn printout(database: &str) -> String {
    let setup = setup_grants(database, "'dlock_setup'@'%'");
    let runtime = runtime_grants(database, "'dlock'@'%'");
    format!(
        "{DDL}\n\
         -- Grants of the account that runs dlock setup:\n{setup}\n\
         -- Grants of the account that runs dlock exec (SELECT is enough for status, history, wait, check):\n{runtime}"
    )
}

/// Returns `name` as a quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::{DDL, RUNTIME, VERSION, runtime_grants};

    #[test]
    fn every_table_has_grants_and_ddl_records_the_version() {
        assert_eq!(DDL.matches("CREATE TABLE").count(), RUNTIME.len());
        assert!(DDL.contains(&format!("SELECT {VERSION} FROM")));
        assert!(runtime_grants("a`b", "u").contains("ON `a``b`.dlock_lock TO u;"));
    }
}
