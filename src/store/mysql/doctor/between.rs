//! What stands between dlock and the server: whether it takes part in the protocol, and whether a
//! session stays one.

use super::facts::{Facts, Settings};
use super::session::{Session, Unanswered};
use crate::store::finding::{Check, Finding};

/// What a session must be set to, as `statements::session` does it, with the names that servers
/// have for it.
const WANTED: [(&[&str], &str); 5] = [
    (&["autocommit"], "ON"),
    (&["transaction_isolation", "tx_isolation"], "READ-COMMITTED"),
    (&["sql_mode"], "STRICT_ALL_TABLES"),
    (&["innodb_lock_wait_timeout"], "1"),
    (&["lock_wait_timeout"], "1"),
];

/// Limits on one statement, off when zero: MariaDB's in seconds, MySQL's in milliseconds. To wait
/// for a named lock is a statement like any other.
const LIMITS: [&str; 2] = ["max_statement_time", "max_execution_time"];

/// The ids that our one session has gone by.
#[derive(Debug)]
pub(super) struct Identities {
    /// In the greeting.
    greeted: Option<u32>,
    /// In answers to questions, each sent by itself.
    answered: Vec<u64>,
}

impl Identities {
    /// Asks three times.
    pub(super) fn ask(session: &mut Session) -> Result<Self, Unanswered> {
        let greeted = session.greeted_as();
        let mut answered = Vec::new();
        for _ in 0..3 {
            let id = session.value("SELECT CONNECTION_ID();")?;
            answered.extend(id.and_then(|id| id.parse::<u64>().ok()));
        }
        Ok(Self { greeted, answered })
    }

    /// Judges whether a proxy takes part.
    pub(super) fn judge(&self) -> Finding {
        let Some((first, rest)) = self.answered.split_first() else {
            return Finding::unchecked(Check::Proxy, "the server does not tell the session's id");
        };
        if rest.iter().any(|id| id != first) {
            return Finding::note(
                Check::Proxy,
                "one that hands our statements to changing sessions of the server",
                "a named lock does not stay ours, so waiters look in turns instead of being woken in \
                 order, and a lapsed lease is taken over 5 seconds later instead of 0.9",
                "go to the server directly, or turn multiplexing off for this account",
            );
        }
        // The greeting has room for the lower half only.
        match self.greeted {
            Some(greeted) if u64::from(greeted) != first & u64::from(u32::MAX) => Finding::note(
                Check::Proxy,
                "one that greets for the server, such as ProxySQL or MaxScale",
                "it may repeat, move or lose statements, and end connections that wait silently",
                "go to the server directly if you can; otherwise see that the checks session and gate \
                 stay good, and that it waits at least as long as your waiters do",
            ),
            _ => Finding::ok(Check::Proxy, "none that takes part in the protocol"),
        }
    }
}

/// Asks for the settings of the session, some packets after they were made.
pub(super) fn settings(session: &mut Session) -> Result<Settings, Unanswered> {
    let wanted = WANTED.iter().flat_map(|(names, _)| *names);
    let names: Vec<&str> = wanted.chain(&LIMITS).copied().collect();
    let show = format!(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('{}');",
        names.join("','")
    );
    Ok(Settings::read(
        session.ask(&show)?.pop().unwrap_or_default(),
    ))
}

/// Judges them.
pub(super) fn judge(settings: &Settings, facts: &Facts) -> Finding {
    let wrong: Vec<String> = WANTED
        .iter()
        .filter_map(|(names, wanted)| {
            let name = names.iter().find(|name| settings.get(name).is_some())?;
            let value = settings.get(name)?;
            (value != *wanted).then(|| format!("{name}={value}, not {wanted}"))
        })
        .collect();
    if !wrong.is_empty() {
        return Finding::mend(
            Check::Session,
            format!("settings do not last: {}", wrong.join("; ")),
            "without them an attempt may stay uncommitted, or wait on the server after dlock has \
             given it up",
            "something between changes or drops what dlock sets: go to the server directly, or let \
             the proxy keep session variables",
        );
    }
    let limit = LIMITS.iter().find_map(|name| {
        let value = settings.get(name)?;
        value
            .contains(|c| matches!(c, '1'..='9'))
            .then(|| format!("{name}={value}"))
    });
    if let Some(limit) = limit {
        return Finding::note(
            Check::Session,
            limit,
            "the server ends a wait in line after that time, and the waiter stands at the end again",
            "set it to 0 for this account: in the server's option file, by init_connect or the proxy",
        );
    }
    match facts.global.get("autocommit") {
        Some("OFF") => Finding::note(
            Check::Session,
            "settings last; autocommit is off for everybody else",
            "dlock turns it on for itself, but who looks at its tables by hand holds what he has \
             touched until he commits, and dlock waits",
            "commit soon, or set autocommit=1 on the server",
        ),
        _ => Finding::ok(
            Check::Session,
            "autocommit, isolation and lock waits stay as dlock sets them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::{Identities, WANTED, judge};
    use crate::store::finding::Verdict;
    use crate::store::mysql::statements;

    #[test]
    fn a_proxy_shows_by_the_ids_of_the_session() {
        let judged = |greeted, answered: &[u64]| {
            let answered = answered.to_vec();
            Identities { greeted, answered }.judge()
        };
        let plain = judged(Some(7), &[7, 7, 7]);
        assert_eq!(plain.verdict, Verdict::Ok);
        // MySQL counts beyond 32 bits.
        assert_eq!(judged(Some(7), &[(1 << 32) + 7]).verdict, Verdict::Ok);
        let moving = judged(Some(7), &[7, 7, 9]);
        assert!(moving.fact.contains("changing sessions"), "{moving:?}");
        let greeting = judged(Some(7), &[9, 9, 9]);
        assert!(greeting.fact.contains("greets"), "{greeting:?}");
        assert_eq!(judged(Some(7), &[]).verdict, Verdict::Unchecked);
    }

    #[test]
    fn what_is_wanted_of_a_session_is_what_is_set() {
        let set = statements::session(std::time::Duration::from_secs(30)).to_uppercase();
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
            let is_set = names.iter().any(set_by_name)
                || set.contains("ISOLATION LEVEL READ COMMITTED") && wanted == "READ-COMMITTED";
            assert!(is_set, "{names:?} in {set}");
        }
    }

    #[test]
    fn a_setting_that_did_not_last_is_named() {
        let good: Vec<(&str, &str)> = WANTED
            .iter()
            .map(|(names, value)| (names[0], *value))
            .collect();
        let server = Facts::with(&[("autocommit", "ON")]);
        let judged =
            |settings: &[(&str, &str)], server| judge(&Facts::with(settings).global, server);
        assert_eq!(judged(&good, &server).verdict, Verdict::Ok);
        let off = Facts::with(&[("autocommit", "OFF")]);
        assert!(matches!(judged(&good, &off).verdict, Verdict::Note(_)));
        for (limit, is_noted) in [
            (("max_statement_time", "0.000000"), false),
            (("max_statement_time", "0.500000"), true),
            (("max_execution_time", "1000"), true),
        ] {
            let mut limited = good.clone();
            limited.push(limit);
            let finding = judged(&limited, &server);
            assert_eq!(finding.verdict != Verdict::Ok, is_noted, "{finding:?}");
            assert!(!finding.is_mend());
        }
        let mut bad = good;
        bad[4].1 = "86400";
        let finding = judged(&bad, &server);
        assert!(finding.is_mend());
        assert!(
            finding.fact.contains("lock_wait_timeout=86400"),
            "{finding:?}"
        );
    }
}
