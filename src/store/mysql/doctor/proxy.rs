//! Checks whether a proxy between dlock and the server interprets the protocol, whether all requests reach the same
//! server session, and whether the settings of that session stay unchanged.

use super::session::{QueryError, Session};
use super::variables::{ServerFacts, Settings};
use crate::store::check::{Check, Finding};

/// Settings that a session must have, as `statements::session` sets them. For each setting, all names that servers use
/// for it, and the value.
const WANTED: [(&[&str], &str); 7] = [
    (&["autocommit"], "ON"),
    (&["completion_type"], "NO_CHAIN"),
    (&["transaction_isolation", "tx_isolation"], "READ-COMMITTED"),
    (&["sql_mode"], "STRICT_ALL_TABLES"),
    (&["innodb_lock_wait_timeout"], "1"),
    (&["lock_wait_timeout"], "1"),
    (&["innodb_snapshot_isolation"], "OFF"),
];

/// Variables that limit the time of one statement: on MariaDB in seconds, on MySQL in milliseconds. 0 means no limit.
/// The limits also apply to the statement that waits for a named lock.
const LIMITS: [&str; 2] = ["max_statement_time", "max_execution_time"];

/// Connection ids that the server reported for one session.
#[derive(Debug)]
pub(super) struct Identities {
    /// The id in the greeting. None without a connection.
    greeting: Option<u32>,
    /// The ids in the responses to separate requests.
    responses: Vec<u64>,
}

impl Identities {
    /// Queries the server for the connection id three times.
    pub(super) fn query(session: &mut Session) -> Result<Self, QueryError> {
        let greeting = session.greeting_id();
        let mut responses = Vec::new();
        for _ in 0..3 {
            let id = session.value("SELECT CONNECTION_ID();")?;
            responses.extend(id.and_then(|id| id.parse::<u64>().ok()));
        }
        Ok(Self {
            greeting,
            responses,
        })
    }

    /// Judges if a proxy interprets the protocol.
    pub(super) fn judge(&self) -> Finding {
        let Some((first, rest)) = self.responses.split_first() else {
            return Finding::skip(Check::Proxy, "the server does not report the session id");
        };
        if rest.iter().any(|id| id != first) {
            return Finding::warn(
                Check::Proxy,
                "a proxy that sends dlock's statements to changing sessions on the server",
                "dlock cannot keep a named lock, so waiters poll instead of being woken in order, and an \
                 expired lease is taken over after 5 seconds instead of 0.9",
                "connect to the server directly, or turn off multiplexing for this account",
            );
        }
        // The greeting contains only the lower 32 bits of the id.
        match self.greeting {
            Some(greeting) if u64::from(greeting) != first & u64::from(u32::MAX) => Finding::warn(
                Check::Proxy,
                "a proxy that sends its own greeting, such as ProxySQL or MaxScale",
                "the proxy may repeat, reroute or lose statements, and may close the idle connections of \
                 waiters",
                "connect to the server directly if possible; otherwise make sure that the checks session and \
                 named-locks pass, and that the proxy's time limits are longer than the longest wait",
            ),
            _ => Finding::ok(Check::Proxy, "no proxy that interprets the protocol"),
        }
    }
}

/// Returns the finding for a proxy that shares the sessions of the server among its clients. `message` is its error.
pub(super) fn shares_sessions(message: &str) -> Finding {
    Finding::fail(
        Check::Proxy,
        message,
        "each packet of dlock contains several statements, and the server's named locks belong to a session",
        "set connection_sharing=0 in the route of MySQL Router that dlock uses, or connect to the server directly",
    )
}

/// Queries the server for the settings of the session. dlock set them several packets earlier.
pub(super) fn settings(session: &mut Session) -> Result<Settings, QueryError> {
    let wanted = WANTED.iter().flat_map(|(names, _)| *names);
    let names: Vec<&str> = wanted.chain(&LIMITS).copied().collect();
    let show = format!(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('{}');",
        names.join("','")
    );
    Ok(Settings::read(
        session.query(&show)?.pop().unwrap_or_default(),
    ))
}

/// Judges the settings of the session.
pub(super) fn judge(settings: &Settings, facts: &ServerFacts) -> Finding {
    let wrong: Vec<String> = WANTED
        .iter()
        .filter_map(|(names, wanted)| {
            let name = names.iter().find(|name| settings.get(name).is_some())?;
            let value = settings.get(name)?;
            (value != *wanted).then(|| format!("{name}={value}, not {wanted}"))
        })
        .collect();
    if !wrong.is_empty() {
        return Finding::fail(
            Check::Session,
            format!(
                "the session does not keep its settings: {}",
                wrong.join("; ")
            ),
            "without these settings, an attempt may not be committed, or may wait on the server after \
             dlock has stopped waiting for the response",
            "a proxy changes or drops the settings: connect to the server directly, or configure the \
             proxy to keep session variables",
        );
    }
    let limit = LIMITS.iter().find_map(|name| {
        let value = settings.get(name)?;
        value
            .contains(|c| matches!(c, '1'..='9'))
            .then(|| format!("{name}={value}"))
    });
    if let Some(limit) = limit {
        return Finding::warn(
            Check::Session,
            limit,
            "the server ends a wait in the queue after that time, and the waiter loses its position",
            "set the variable to 0 for this account, in the server's option file, with init_connect or in \
             the proxy",
        );
    }
    match facts.global.get("autocommit") {
        Some("OFF") => Finding::warn(
            Check::Session,
            "the session keeps its settings; autocommit is off for other sessions",
            "dlock turns autocommit on for its own sessions, but rows of its tables that a user changes with \
             SQL stay locked until the user commits, and dlock waits",
            "commit such changes immediately, or set autocommit=1 on the server",
        ),
        _ => Finding::ok(
            Check::Session,
            "autocommit, isolation level and lock wait timeouts stay as dlock sets them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::variables::ServerFacts;
    use super::{Identities, WANTED, judge};
    use crate::store::check::CheckStatus;
    use crate::store::mysql::statements::{self, MemberCheck, WriteCheck};
    use std::time::Duration;

    #[test]
    fn a_proxy_is_detected_by_the_session_ids() {
        let finding_for = |greeting, responses: &[u64]| {
            let responses = responses.to_vec();
            Identities {
                greeting,
                responses,
            }
            .judge()
        };
        let plain = finding_for(Some(7), &[7, 7, 7]);
        assert_eq!(plain.status, CheckStatus::Ok);
        // An id on MySQL can have more than 32 bits.
        assert_eq!(
            finding_for(Some(7), &[(1 << 32) + 7]).status,
            CheckStatus::Ok
        );
        let moving = finding_for(Some(7), &[7, 7, 9]);
        assert!(moving.fact.contains("changing sessions"), "{moving:?}");
        let greeting = finding_for(Some(7), &[9, 9, 9]);
        assert!(greeting.fact.contains("its own greeting"), "{greeting:?}");
        assert_eq!(finding_for(Some(7), &[]).status, CheckStatus::Skipped);
    }

    #[test]
    fn expected_session_settings_are_those_that_are_set() {
        let set = statements::session(
            "app",
            Duration::from_secs(30),
            MemberCheck::Skip,
            WriteCheck::Skip,
        )
        .to_uppercase();
        for (names, wanted) in WANTED {
            let value = match wanted {
                "ON" => "1",
                other => other,
            };
            let set_by_name = |name: &&str| {
                let name = name.to_uppercase();
                set.contains(&format!("{name}={value}"))
                    || set.contains(&format!("{name}='{value}'"))
            };
            // Each flavour has its own name for the isolation level.
            let is_set = names.iter().any(set_by_name)
                || set.contains("ISOLATION*/='READ-COMMITTED'") && wanted == "READ-COMMITTED";
            assert!(is_set, "{names:?} in {set}");
        }
    }

    #[test]
    fn changed_session_settings_are_reported() {
        let good: Vec<(&str, &str)> = WANTED
            .iter()
            .map(|(names, value)| (names[0], *value))
            .collect();
        let server = ServerFacts::with(&[("autocommit", "ON")]);
        let finding_for =
            |settings: &[(&str, &str)], server| judge(&ServerFacts::with(settings).global, server);
        assert_eq!(finding_for(&good, &server).status, CheckStatus::Ok);
        let off = ServerFacts::with(&[("autocommit", "OFF")]);
        assert!(matches!(
            finding_for(&good, &off).status,
            CheckStatus::Warn(_)
        ));
        for (limit, is_warned) in [
            (("max_statement_time", "0.000000"), false),
            (("max_statement_time", "0.500000"), true),
            (("max_execution_time", "1000"), true),
        ] {
            let mut limited = good.clone();
            limited.push(limit);
            let finding = finding_for(&limited, &server);
            assert_eq!(finding.status != CheckStatus::Ok, is_warned, "{finding:?}");
            assert!(!finding.is_failure());
        }
        let mut bad = good;
        bad[4].1 = "86400";
        let finding = finding_for(&bad, &server);
        assert!(finding.is_failure());
        assert!(
            finding.fact.contains("lock_wait_timeout=86400"),
            "{finding:?}"
        );
    }
}
