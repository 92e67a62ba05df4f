//! Checks that dlock's account can see and end the sessions of the account that the command uses (`--session-user`).
//!
//! The check reads SHOW GRANTS, because only a KILL that ends a session would try the privilege for KILL. For the
//! account of the session, MariaDB and MySQL list all privileges that are in effect on `*.*`, including the privileges
//! from active roles and from PUBLIC. Privileges on `*.*` have no patterns.

use std::collections::HashSet;

use super::grants::quoted;
use super::server::series;
use super::session::{QueryError, Session};
use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};
use crate::store::mysql::statements::SESSIONS;
use crate::store::session::shown_name;

/// Privilege that shows the sessions of other accounts.
const TO_SEE: &str = "PROCESS";

/// Privilege without which no session of an account with the same privilege can be ended. Only MySQL has it.
const SYSTEM_USER: &str = "SYSTEM_USER";

/// What the server reports about the sessions of other accounts.
#[derive(Debug)]
pub(super) struct SessionAccess {
    /// The server maintains the list from which dlock reads sessions.
    lists_sessions: bool,
    /// The name of this machine that the server shows in place of its IP address. None if it shows the address, or
    /// `localhost`.
    shown_name: Option<String>,
    /// Privileges of dlock's account on `*.*`, as SHOW GRANTS writes them.
    privileges: HashSet<String>,
    /// Names of the accounts that have `SYSTEM_USER` without a role. Empty if dlock's account cannot read them.
    system_users: Vec<String>,
}

impl SessionAccess {
    /// Queries the server for the list of sessions and for the privileges.
    pub(super) fn query(session: &mut Session, facts: &ServerFacts) -> Result<Self, QueryError> {
        let sets = session.query(&format!(
            "SELECT host FROM {SESSIONS} AS p WHERE id=CONNECTION_ID();SHOW GRANTS;"
        ))?;
        let mut texts = sets
            .into_iter()
            .map(|rows| rows.into_iter().flatten().flatten());
        let client = texts.next().and_then(|mut set| set.next());
        let privileges = texts.flatten().flat_map(|grant| global_privileges(&grant));
        Ok(Self {
            lists_sessions: client.is_some(),
            shown_name: client.and_then(|client| shown_name(&client)),
            privileges: privileges.collect(),
            system_users: match has_system_users(facts) {
                true => system_users(session)?,
                false => Vec::new(),
            },
        })
    }

    /// Judges whether dlock's account can see and end the sessions of `user`, the name of an account without its host.
    pub(super) fn judge(&self, user: &str, facts: &ServerFacts) -> Finding {
        let account = &facts.account;
        if !self.lists_sessions {
            return Finding::warn(
                Check::SessionUser,
                "the server does not list sessions (performance_schema is off)",
                unseen(user),
                "set performance_schema=ON in the server's option file, then restart the server",
            );
        }
        if let Some(name) = &self.shown_name {
            return Finding::warn(
                Check::SessionUser,
                format!("the server shows the name {name} in place of the address of this machine"),
                unseen(user),
                "set skip_name_resolve=ON in the server's option file, then restart the server; accounts then need IP \
                 addresses in place of host names",
            );
        }
        let name = account.rsplit_once('@').map_or("", |(name, _)| name);
        if [name, account].contains(&user) {
            let fact = format!("{account} can see and end its own sessions");
            return Finding::ok(Check::SessionUser, fact);
        }
        let can_see = self.has(TO_SEE);
        let to_end = privileges_to_end(facts);
        let has_to_end = to_end.iter().any(|privilege| self.has(privilege));
        let is_system_user = self.system_users.iter().any(|name| name == user);
        let lacks_system_user = is_system_user && !self.has(SYSTEM_USER);
        let can_end = has_to_end && !lacks_system_user;
        let (fact, why) = match (can_see, can_end) {
            (true, true) => {
                let unknown = match has_system_users(facts) && !self.has(SYSTEM_USER) {
                    true => {
                        format!("; if {user} has SYSTEM_USER, ending them requires SYSTEM_USER too")
                    }
                    false => String::new(),
                };
                let fact = format!("{account} can see and end the sessions of {user}{unknown}");
                return Finding::ok(Check::SessionUser, fact);
            }
            (true, false) => ("can see, but not end,", unended(user)),
            (false, true) => ("can end, but not see,", unseen(user)),
            (false, false) => ("can neither see nor end", unseen(user)),
        };
        let mut missing = Vec::new();
        missing.extend((!can_see).then_some(TO_SEE));
        missing.extend((!has_to_end).then_some(to_end[0]));
        missing.extend(lacks_system_user.then_some(SYSTEM_USER));
        Finding::warn(
            Check::SessionUser,
            format!("{account} {fact} the sessions of {user}"),
            why,
            format!(
                "GRANT {} ON *.* TO {};",
                missing.join(", "),
                quoted(account)
            ),
        )
    }

    fn has(&self, privilege: &str) -> bool {
        [privilege, "ALL PRIVILEGES"]
            .iter()
            .any(|name| self.privileges.contains(*name))
    }
}

/// Returns the consequence if dlock cannot see the sessions of `user`.
fn unseen(user: &str) -> String {
    format!(
        "if a killed command leaves a session of {user} on the server, dlock does not notice it, so the next \
         command may start while a statement of the killed command still runs"
    )
}

/// Returns the consequence if dlock can see the sessions of `user`, but cannot end them.
fn unended(user: &str) -> String {
    format!(
        "if a killed command leaves a session of {user} on the server, dlock cannot end it, so the next \
         command has to wait until the session ends"
    )
}

/// Returns the privileges of which each allows an account to end the sessions of other accounts. The first one has the
/// fewest side effects.
fn privileges_to_end(facts: &ServerFacts) -> &'static [&'static str] {
    let is_since = |oldest| series(&facts.version).is_some_and(|series| series >= oldest);
    match facts.is_mariadb() {
        true if is_since((11, 0)) => &["CONNECTION ADMIN"],
        true if is_since((10, 5)) => &["CONNECTION ADMIN", "SUPER"],
        false if is_since((8, 0)) => &["CONNECTION_ADMIN", "SUPER"],
        _ => &["SUPER"],
    }
}

/// Returns true if the server has the privilege `SYSTEM_USER`.
fn has_system_users(facts: &ServerFacts) -> bool {
    !facts.is_mariadb() && series(&facts.version).is_some_and(|series| series >= (8, 0))
}

/// Returns the privileges on `*.*` in a line of SHOW GRANTS. The result is empty if the line contains no such
/// privileges. Names of databases, columns and roles are quoted, so a line with a quote before `ON` is about them.
fn global_privileges(grant: &str) -> Vec<String> {
    let list = grant
        .strip_prefix("GRANT ")
        .and_then(|rest| rest.split_once(" ON *.* TO "));
    match list {
        Some((list, _)) if !list.contains(['`', '\'', '"']) => {
            list.split(',').map(|name| name.trim().to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the names of the accounts that have `SYSTEM_USER` without a role. The result is empty if dlock's
/// account cannot read them.
fn system_users(session: &mut Session) -> Result<Vec<String>, QueryError> {
    match session.query("SELECT user FROM mysql.global_grants WHERE priv='SYSTEM_USER';") {
        Ok(sets) => Ok(sets.into_iter().flatten().flatten().flatten().collect()),
        Err(QueryError::Refused(_)) => Ok(Vec::new()),
        Err(lost @ QueryError::Disconnected(_)) => Err(lost),
    }
}

#[cfg(test)]
mod tests {
    use super::super::variables::ServerFacts;
    use super::{SessionAccess, global_privileges, shown_name};
    use crate::store::check::CheckStatus;

    /// Returns the fix for an account with `privileges` on a server of this version. None if the finding is ok.
    fn fix(version: &str, privileges: &[&str]) -> Option<String> {
        let access = SessionAccess {
            lists_sessions: true,
            shown_name: None,
            privileges: privileges.iter().map(ToString::to_string).collect(),
            system_users: Vec::new(),
        };
        let facts = ServerFacts {
            version: version.to_owned(),
            account: "dlock@10.%".to_owned(),
            ..ServerFacts::default()
        };
        match access.judge("app", &facts).status {
            CheckStatus::Warn(advice) => Some(advice.fix),
            _ => None,
        }
    }

    #[test]
    fn each_series_needs_its_own_privilege() {
        for (version, privilege, is_super_enough) in [
            ("11.8.6-MariaDB", "CONNECTION ADMIN", false),
            ("10.11.19-MariaDB-log", "CONNECTION ADMIN", true),
            ("5.5.5-10.4.34-MariaDB", "SUPER", true),
            ("9.7.4-2", "CONNECTION_ADMIN", true),
            ("8.0.11-TiDB-v8.1.0", "CONNECTION_ADMIN", true),
            ("5.7.44-log", "SUPER", true),
        ] {
            let grant = format!("GRANT PROCESS, {privilege} ON *.* TO 'dlock'@'10.%';");
            assert_eq!(fix(version, &["USAGE"]), Some(grant), "{version}");
            assert_eq!(fix(version, &["PROCESS", privilege]), None, "{version}");
            assert_eq!(fix(version, &["ALL PRIVILEGES"]), None, "{version}");
            let with_super = fix(version, &["PROCESS", "SUPER"]);
            assert_eq!(with_super.is_none(), is_super_enough, "{version}");
        }
    }

    #[test]
    fn a_server_that_shows_names_is_reported() {
        let access = |client| SessionAccess {
            lists_sessions: true,
            shown_name: shown_name(client),
            privileges: ["ALL PRIVILEGES".to_owned()].into(),
            system_users: Vec::new(),
        };
        let facts = ServerFacts::default();
        let status = |client| access(client).judge("app", &facts).status;
        for client in [
            "10.0.0.3:50001",
            "fe80::1:50001",
            "localhost:50001",
            "localhost",
        ] {
            assert!(matches!(status(client), CheckStatus::Ok), "{client}");
        }
        assert!(matches!(
            status("web-1.example.org:50001"),
            CheckStatus::Warn(_)
        ));
    }

    #[test]
    fn only_privileges_on_the_whole_server_are_read() {
        let expected = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        for (grant, privileges) in [
            ("GRANT PROCESS, SUPER ON *.* TO `d`@`%`", "PROCESS SUPER"),
            ("GRANT PROCESS,SUPER ON *.* TO PUBLIC", "PROCESS SUPER"),
            ("GRANT SELECT ON `x ON *.* TO y`.* TO `d`@`%`", ""),
            (
                "GRANT SELECT (`SUPER ON *.* TO x`) ON `d`.`t` TO `d`@`%`",
                "",
            ),
            ("GRANT `SUPER ON *.* TO x` TO `d`@`%`", ""),
            ("GRANT PROXY ON ''@'%' TO 'root'@'localhost'", ""),
        ] {
            let expected: Vec<String> = expected(privileges);
            assert_eq!(global_privileges(grant), expected, "{grant}");
        }
    }
}
