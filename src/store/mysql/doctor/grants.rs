//! Whether the account may do what `exec` does: tried, by statements that touch no row.
//!
//! SHOW GRANTS would have to be read like the server reads it, with roles, patterns and proxies;
//! the server's own answer to the statement itself is right by definition.

use super::super::schema;
use super::definition::Table;
use super::session::{Session, Unanswered};
use crate::store::FailureKind;
use crate::store::finding::{Check, Finding};

/// What came of trying one right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permission {
    /// The server did it.
    Granted,
    /// The account may not.
    Missing,
    /// There is no such table.
    NoTable,
    /// Something else was in the way.
    Unclear(String),
}

/// One right, tried.
#[derive(Debug, Clone)]
pub(super) struct Right {
    /// The table.
    pub(super) table: &'static str,
    /// SELECT, INSERT, UPDATE or DELETE.
    pub(super) verb: &'static str,
    /// What came of it.
    pub(super) permission: Permission,
}

/// Tries all rights that `exec` needs on `tables`.
pub(super) fn ask(session: &mut Session, tables: &[Table]) -> Result<Vec<Right>, Unanswered> {
    let tries: Vec<(&Table, &str)> = schema::rights()
        .filter_map(|(name, right)| {
            let table = tables.iter().find(|table| table.name == name)?;
            Some((table, right))
        })
        .collect();
    let right = |(table, verb): &(&Table, &'static str), permission| Right {
        table: table.name,
        verb,
        permission,
    };
    let all: String = tries
        .iter()
        .map(|(table, right)| statement(table, right))
        .collect();
    // One packet where all is well. A refusal says nothing of what stands behind it.
    match session.ask(&all) {
        Ok(_) => {
            let granted = |tried| right(tried, Permission::Granted);
            return Ok(tries.iter().map(granted).collect());
        }
        Err(broken @ Unanswered::Broken(_)) => return Err(broken),
        Err(Unanswered::Refused(_)) => {}
    }
    let mut rights = Vec::new();
    for tried in &tries {
        let permission = match session.ask(&statement(tried.0, tried.1)) {
            Ok(_) => Permission::Granted,
            Err(broken @ Unanswered::Broken(_)) => return Err(broken),
            Err(Unanswered::Refused(failure)) => match failure.kind {
                FailureKind::Denied => Permission::Missing,
                FailureKind::NoTables => Permission::NoTable,
                _ => Permission::Unclear(failure.message),
            },
        };
        let is_stuck = matches!(permission, Permission::Unclear(_));
        rights.push(right(tried, permission));
        // Most of what is in the way of one is in the way of all, and each may take a second.
        if is_stuck {
            break;
        }
    }
    Ok(rights)
}

/// Needs `right` on all columns of `table`, changes nothing and reads nothing. All names are those
/// of `schema.sql`.
fn statement(table: &Table, right: &str) -> String {
    let name = table.name;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
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

/// Judges the rights that `account` (`user@host`) was found to have on the tables of `database`.
pub(super) fn judge(rights: &[Right], database: &str, account: &str) -> Vec<Finding> {
    let missing: Vec<String> = rights
        .iter()
        .filter(|right| right.permission == Permission::Missing)
        .map(|right| format!("{} on {}", right.verb, right.table))
        .collect();
    if !missing.is_empty() {
        let lacks = |line: &&str| {
            let is_of = |table: &str| line.contains(&format!(".{table} "));
            let lacking = |right: &&Right| right.permission == Permission::Missing;
            rights
                .iter()
                .filter(lacking)
                .any(|right| is_of(right.table))
        };
        let grants = schema::runtime_grants(database, &quoted(account));
        let grants: Vec<&str> = grants.lines().filter(lacks).collect();
        return vec![Finding::mend(
            Check::Grants,
            format!("missing: {}", missing.join(", ")),
            "dlock exec ends with 77 where it needs one of them",
            match rights
                .iter()
                .any(|right| right.permission == Permission::NoTable)
            {
                true => format!("when the tables are there: {}", grants.join(" ")),
                false => grants.join(" "),
            },
        )];
    }
    let unclear = rights.iter().find_map(|right| match &right.permission {
        Permission::Unclear(message) => {
            Some(format!("{} on {}: {message}", right.verb, right.table))
        }
        _ => None,
    });
    if let Some(unclear) = unclear {
        return vec![Finding::unchecked(Check::Grants, unclear)];
    }
    if rights
        .iter()
        .any(|right| right.permission == Permission::NoTable)
    {
        return vec![Finding::unchecked(
            Check::Grants,
            "without a table there is nothing to try them on",
        )];
    }
    vec![Finding::ok(
        Check::Grants,
        "all that exec needs; creating tables is only for setup",
    )]
}

/// `user@host` as a GRANT takes it.
fn quoted(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let [user, host] = [user, host].map(|name| name.replace('\'', "''"));
    format!("'{user}'@'{host}'")
}

/// Whether the account may create tables, tried by one that no server can create; none if nobody
/// knows. Not for a cluster that carries every definition to all of its nodes before it looks at it.
pub(super) fn may_create(session: &mut Session) -> Result<Option<bool>, Unanswered> {
    match session.ask("CREATE TABLE dlock_doctor (twice INT,twice INT);") {
        // The privilege is looked at first.
        Err(Unanswered::Refused(failure)) => Ok(match failure.kind {
            FailureKind::Denied => Some(false),
            FailureKind::Config => Some(true),
            _ => None,
        }),
        Err(broken) => Err(broken),
        Ok(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition;
    use super::{Permission, Right, judge, statement};
    use crate::store::finding::Verdict;

    #[test]
    fn no_statement_can_touch_a_row() {
        for table in definition::tables() {
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
    fn the_remedy_is_the_grants_of_the_tables_that_lack_one() {
        let right = |table, verb, permission| Right {
            table,
            verb,
            permission,
        };
        let rights = [
            right("dlock_lock", "UPDATE", Permission::Missing),
            right("dlock_waiter", "DELETE", Permission::Granted),
        ];
        let findings = judge(&rights, "d", "o'neil@%");
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.fact, "missing: UPDATE on dlock_lock");
        let Verdict::Mend(advice) = &finding.verdict else {
            panic!("{finding:?}");
        };
        assert!(
            advice
                .remedy
                .contains("ON `d`.dlock_lock TO 'o''neil'@'%';")
        );
        assert!(!advice.remedy.contains("dlock_waiter"));
    }

    #[test]
    fn what_could_not_be_tried_is_not_called_granted() {
        let right = |permission| {
            [Right {
                table: "dlock_lock",
                verb: "SELECT",
                permission,
            }]
        };
        let verdict = |permission| judge(&right(permission), "d", "u@%")[0].verdict.clone();
        assert_eq!(verdict(Permission::Granted), Verdict::Ok);
        assert_eq!(verdict(Permission::NoTable), Verdict::Unchecked);
        let unclear = Permission::Unclear("read only".to_owned());
        assert_eq!(verdict(unclear), Verdict::Unchecked);
    }
}
