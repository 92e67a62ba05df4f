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
const RUNTIME: [(&str, &str); 7] = [
    ("dlock_schema", "SELECT"),
    ("dlock_lock", "SELECT, INSERT, UPDATE"),
    ("dlock_waiter", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_success", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_history", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_fence", "SELECT, INSERT, UPDATE"),
    ("dlock_slot", "SELECT, INSERT, UPDATE"),
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
    table_grants(&format!("{}.", quoted(database)), account)
}

/// Does the same as [`runtime_grants`]. `prefix` is the part of each table's name before the table, which is empty for
/// the selected database.
fn table_grants(prefix: &str, account: &str) -> String {
    RUNTIME
        .map(|(table, rights)| format!("GRANT {rights} ON {prefix}{table} TO {account};\n"))
        .concat()
}

/// Tables from which `dlock prune` deletes rows although `exec` may not.
const PRUNED: [&str; 3] = ["dlock_lock", "dlock_fence", "dlock_slot"];

/// Returns the GRANT statements that an account needs to run `prune` beside those of [`table_grants`], one per line, as
/// comments.
fn prune_grants(prefix: &str, account: &str) -> String {
    PRUNED
        .map(|table| format!("-- GRANT DELETE ON {prefix}{table} TO {account};\n"))
        .concat()
}

/// Returns the GRANT statement for the account that runs `setup`, with the minimal privileges. It includes the
/// privileges for upgrades if this version of dlock has upgrades.
#[must_use]
pub fn setup_grants(database: &str, account: &str) -> String {
    // In a GRANT on a whole database, _ and % are wildcards.
    let database = quoted(database).replace('_', "\\_").replace('%', "\\%");
    database_grant(&format!("{database}.*"), account)
}

/// Does the same as [`setup_grants`] for `tables`, which is `*` for the selected database.
fn database_grant(tables: &str, account: &str) -> String {
    let for_upgrades = match current().upgrades {
        [] => "",
        _ => ", UPDATE, ALTER",
    };
    format!("GRANT CREATE, SELECT, INSERT{for_upgrades} ON {tables} TO {account};\n")
}

/// Returns the output of `setup --print` for a database administrator: the definition of the tables, the account `user`
/// and its GRANT statements. The statements can be executed as they are. They use `database`, or the selected database
/// if `database` is None.
///
/// The new account is locked, because the output contains no password. All other statements are comments: the upgrades
/// of existing tables must not be executed on new tables, MariaDB does not have the table of Group Replication, and most
/// servers need no second account.
#[must_use]
pub fn printout(database: Option<&str>, user: &str) -> String {
    let schema = current();
    let ddl = schema.ddl;
    let upgrades = schema.upgrades_as_comments();
    let account = format!("{}@'%'", quoted_text(user));
    let setup_account = "'dlock_setup'@'%'";
    let (select, prefix, setup) = match database {
        Some(database) => (
            format!("USE {};\n\n", quoted(database)),
            format!("{}.", quoted(database)),
            setup_grants(database, setup_account),
        ),
        None => (
            String::new(),
            String::new(),
            database_grant("*", setup_account),
        ),
    };
    let runtime = table_grants(&prefix, &account);
    let prune = prune_grants(&prefix, &account);
    let group = group_grant(&account);
    format!(
        "{select}{ddl}\n{upgrades}\
         -- Privileges for a separate account that runs dlock setup:\n\
         -- {setup}\n\
         -- The account that runs dlock exec. Set its password and unlock it:\n\
         -- ALTER USER {account} IDENTIFIED BY '...' ACCOUNT UNLOCK;\n\
         CREATE USER IF NOT EXISTS {account} ACCOUNT LOCK;\n\n\
         -- Privileges for that account (for status, history, wait and check, SELECT is enough):\n\
         {runtime}\n\
         -- To run dlock prune, the account also needs:\n\
         {prune}\n\
         -- On members of a group (Group Replication), dlock also needs:\n\
         -- {group}\n"
    )
}

/// Returns the GRANT statement with which dlock can see the members of a group.
#[must_use]
pub(super) fn group_grant(account: &str) -> String {
    format!("GRANT SELECT ON performance_schema.replication_group_members TO {account};")
}

/// Returns `text` as a string literal of SQL.
fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
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
