//! The tables, their version, and the grants that they need.
//!
//! `schema.sql` is the one definition: it is what `setup` runs, what `setup --print` shows and what
//! the first `exec` creates where its account may.

/// The version of `schema.sql`; a database with another one is left alone.
pub(super) const VERSION: u64 = 1;

/// The definition, several statements separated by semicolons; running it again changes nothing.
///
/// `dlock_lock` comes last, so that nobody can take a lock before the version is recorded.
pub(super) const DDL: &str = include_str!("schema.sql");

/// The tables of dlock with what the account of `exec` must be allowed to do to each.
const RUNTIME: [(&str, &str); 6] = [
    ("dlock_schema", "SELECT"),
    ("dlock_lock", "SELECT, INSERT, UPDATE"),
    ("dlock_waiter", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_done", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_run", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_fence", "SELECT, INSERT, UPDATE"),
];

/// Each table with each thing that the account of `exec` must be allowed to do to it.
pub(super) fn rights() -> impl Iterator<Item = (&'static str, &'static str)> {
    let each = |(table, rights): (&'static str, &'static str)| {
        rights.split(", ").map(move |right| (table, right))
    };
    RUNTIME.into_iter().flat_map(each)
}

/// The least grants for the account that runs `exec`, one statement a line.
#[must_use]
pub fn runtime_grants(database: &str, account: &str) -> String {
    let database = quoted(database);
    RUNTIME
        .map(|(table, rights)| format!("GRANT {rights} ON {database}.{table} TO {account};\n"))
        .concat()
}

/// The least grants for the account that runs `setup`, one statement.
#[must_use]
pub fn setup_grants(database: &str, account: &str) -> String {
    // In a grant on a whole database _ and % are wildcards.
    let database = quoted(database).replace('_', "\\_").replace('%', "\\%");
    format!("GRANT CREATE, SELECT, INSERT ON {database}.* TO {account};\n")
}

/// What `setup --print` shows: definition and grants, ready for a database administrator.
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

/// `name` as a quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::{DDL, RUNTIME, VERSION, runtime_grants};

    #[test]
    fn every_table_has_its_grants_and_the_version_is_the_one_recorded() {
        assert_eq!(DDL.matches("CREATE TABLE").count(), RUNTIME.len());
        assert!(DDL.contains(&format!("SELECT {VERSION} FROM")));
        assert!(runtime_grants("a`b", "u").contains("ON `a``b`.dlock_lock TO u;"));
    }
}
