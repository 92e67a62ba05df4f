//! Checks that the account has the privileges that `exec` needs, with statements that match no row.
//!
//! The alternative would be to interpret the output of SHOW GRANTS as the server does, with roles, patterns and proxy
//! users. The server's response to a statement needs no such interpretation.

use super::super::schema;
use super::expected_schema::TableDefinition;
use super::session::{QueryError, Session};
use crate::store::FailureKind;
use crate::store::check::{Check, Finding};

/// Result of trying one privilege.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permission {
    /// The server executed the statement.
    Granted,
    /// The account does not have the privilege.
    Missing,
    /// The table does not exist.
    NoTable,
    /// The statement failed for a different reason. Contains the message.
    Unclear(String),
}

/// One privilege that was tried.
#[derive(Debug, Clone)]
pub(super) struct Right {
    /// Name of the table.
    pub(super) table: &'static str,
    /// SELECT, INSERT, UPDATE or DELETE.
    pub(super) verb: &'static str,
    /// Result of the trial.
    pub(super) permission: Permission,
}

impl Right {
    fn name(&self) -> String {
        format!("{} on {}", self.verb, self.table)
    }
}

/// Tries all privileges that `exec` needs on `tables`.
pub(super) fn query(
    session: &mut Session,
    tables: &[TableDefinition],
) -> Result<Vec<Right>, QueryError> {
    let tries: Vec<(&str, &str, String)> = schema::rights()
        .filter_map(|(name, verb)| {
            let table = tables.iter().find(|table| table.name == name)?;
            Some((name, verb, statement(table, verb)))
        })
        .collect();
    // If the account has all privileges, one packet is enough. After a refusal, the server does not
    // execute the remaining statements of the packet.
    let all: String = tries.iter().map(|(.., statement)| &**statement).collect();
    let has_all = match session.query(&all) {
        Ok(_) => true,
        Err(QueryError::Refused(_)) => false,
        Err(lost) => return Err(lost),
    };
    let mut rights = Vec::new();
    for (table, verb, statement) in tries {
        let permission = match has_all {
            true => Permission::Granted,
            false => try_statement(session, &statement)?,
        };
        let is_unclear = matches!(permission, Permission::Unclear(_));
        rights.push(Right {
            table,
            verb,
            permission,
        });
        // The other statements would most likely fail for the same reason, and each may take a second.
        if is_unclear {
            break;
        }
    }
    Ok(rights)
}

fn try_statement(session: &mut Session, statement: &str) -> Result<Permission, QueryError> {
    match session.query(statement) {
        Ok(_) => Ok(Permission::Granted),
        Err(QueryError::Refused(failure)) => Ok(match failure.kind {
            FailureKind::Denied => Permission::Missing,
            FailureKind::NoTables => Permission::NoTable,
            _ => Permission::Unclear(failure.message),
        }),
        Err(lost) => Err(lost),
    }
}

/// Returns a statement that needs the privilege `right` on all columns of `table`, and that neither
/// changes nor reads a row. All names come from `schema.sql`.
fn statement(table: &TableDefinition, right: &str) -> String {
    let name = table.name;
    let columns = &table.columns;
    match right {
        "SELECT" => format!("SELECT {} FROM {name} LIMIT 0;", columns.join(",")),
        "INSERT" => {
            let values = vec!["NULL"; columns.len()].join(",");
            let columns = columns.join(",");
            format!(
                "INSERT INTO {name} ({columns}) SELECT {values} FROM (SELECT 1) AS one WHERE FALSE;"
            )
        }
        "UPDATE" => {
            let values: Vec<String> = columns.iter().map(|name| format!("{name}=0")).collect();
            format!("UPDATE {name} SET {} WHERE FALSE;", values.join(","))
        }
        _ => format!("DELETE FROM {name} WHERE FALSE;"),
    }
}

/// Judges the privileges that `account` (`user@host`) has on the tables of `database`.
pub(super) fn judge(rights: &[Right], database: &str, account: &str) -> Finding {
    let with = |permission| {
        let rights = rights.iter();
        rights.filter(move |right| right.permission == permission)
    };
    let lacks_table = with(Permission::NoTable).next().is_some();
    let missing: Vec<&Right> = with(Permission::Missing).collect();
    if !missing.is_empty() {
        let is_missing = |line: &&str| {
            let mut tables = missing.iter().map(|right| format!(".{} ", right.table));
            tables.any(|table| line.contains(&table))
        };
        let grants = schema::runtime_grants(database, &quoted(account));
        let grants: Vec<&str> = grants.lines().filter(is_missing).collect();
        let missing: Vec<String> = missing.into_iter().map(Right::name).collect();
        let before = match lacks_table {
            true => "after all tables have been created: ",
            false => "",
        };
        return Finding::fail(
            Check::Grants,
            format!("missing: {}", missing.join(", ")),
            "dlock exec ends with status 77 when it needs a missing privilege",
            format!("{before}{}", grants.join(" ")),
        );
    }
    let unclear = rights.iter().find_map(|right| match &right.permission {
        Permission::Unclear(message) => Some(format!("{}: {message}", right.name())),
        _ => None,
    });
    match unclear {
        Some(unclear) => Finding::skip(Check::Grants, unclear),
        None if lacks_table => Finding::skip(
            Check::Grants,
            "a table is missing, so privileges cannot be tested",
        ),
        None => Finding::ok(
            Check::Grants,
            "all privileges that dlock exec needs; only dlock setup needs to create tables",
        ),
    }
}

/// Returns `user@host` in the form that GRANT expects.
pub(super) fn quoted(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let [user, host] = [user, host].map(|name| name.replace('\'', "''"));
    format!("'{user}'@'{host}'")
}

/// Returns true if the response of the server shows that the account may create tables. Sends a table definition that
/// every server rejects. Do not call this on a cluster that replicates every definition to all of its nodes before it
/// validates the definition.
pub(super) fn may_create(session: &mut Session) -> Result<bool, QueryError> {
    match session.query("CREATE TABLE dlock_doctor (twice INT,twice INT);") {
        // The server checks the privilege first.
        Err(QueryError::Refused(failure)) => Ok(failure.kind == FailureKind::Config),
        Err(lost) => Err(lost),
        Ok(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::schema;
    use super::super::expected_schema;
    use super::{Permission, Right, judge, statement};
    use crate::store::check::CheckStatus;

    #[test]
    fn statements_match_no_row() {
        for table in expected_schema::tables_of(schema::VERSION) {
            for right in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
                let statement = statement(&table, right);
                assert!(statement.starts_with(right), "{statement}");
                let is_harmless =
                    statement.ends_with(" WHERE FALSE;") || statement.ends_with(" LIMIT 0;");
                assert!(is_harmless, "{statement}");
            }
        }
    }

    #[test]
    fn the_fix_contains_only_the_grants_with_a_missing_privilege() {
        let right = |table, verb, permission| Right {
            table,
            verb,
            permission,
        };
        let rights = [
            right("dlock_lock", "UPDATE", Permission::Missing),
            right("dlock_waiter", "DELETE", Permission::Granted),
        ];
        let finding = judge(&rights, "d", "o'neil@%");
        assert_eq!(finding.fact, "missing: UPDATE on dlock_lock");
        let CheckStatus::Fail(advice) = &finding.status else {
            panic!("{finding:?}");
        };
        assert!(advice.fix.contains("ON `d`.dlock_lock TO 'o''neil'@'%';"));
        assert!(!advice.fix.contains("dlock_waiter"));
    }

    #[test]
    fn untried_privileges_are_skipped() {
        let right = |permission| {
            [Right {
                table: "dlock_lock",
                verb: "SELECT",
                permission,
            }]
        };
        let status = |permission| judge(&right(permission), "d", "u@%").status;
        assert_eq!(status(Permission::Granted), CheckStatus::Ok);
        assert_eq!(status(Permission::NoTable), CheckStatus::Skipped);
        let unclear = Permission::Unclear("read only".to_owned());
        assert_eq!(status(unclear), CheckStatus::Skipped);
    }
}
