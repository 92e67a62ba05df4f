//! Checks that the server accepts writes, and that its commits survive a crash and a fail-over.

use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};

/// Judges if the server accepts writes from dlock's sessions.
pub(super) fn writes(facts: &ServerFacts) -> Finding {
    let global = &facts.global;
    let read_only = [
        "read_only",
        "super_read_only",
        "innodb_read_only",
        "offline_mode",
    ];
    let on: Vec<&str> = read_only
        .into_iter()
        // Some servers have more values than on and off, depending on which writes they refuse.
        .filter(|name| {
            let is_off = |value: &str| value.eq_ignore_ascii_case("off") || value == "0";
            global.get(name).is_some_and(|value| !is_off(value))
        })
        .collect();
    if !on.is_empty() {
        return Finding::fail(
            Check::Writes,
            format!("refused: {} is on", on.join(", ")),
            "to take a lock is to write; this is a replica, or a server under repair",
            "name the primary, or an endpoint that follows it",
        );
    }
    if global.is_on("log_bin") && global.get("binlog_format") == Some("STATEMENT") {
        return Finding::fail(
            Check::Writes,
            "refused: binlog_format is STATEMENT",
            "dlock's sessions are READ COMMITTED, whose changes the server does not log by statement",
            "SET GLOBAL binlog_format=ROW (or MIXED), and the same in the server's option file",
        );
    }
    Finding::ok(Check::Writes, "the server takes them")
}

/// Judges which commits a crash of the server loses.
pub(super) fn durability(facts: &ServerFacts) -> Vec<Finding> {
    let global = &facts.global;
    let mut findings = Vec::new();
    match global.number("innodb_flush_log_at_trx_commit") {
        Some(0) => findings.push(Finding::fail(
            Check::Durability,
            "innodb_flush_log_at_trx_commit=0",
            "a mere crash of the server forgets the grants of the last second: another host is \
             granted the same action until the holder's next renewal; only the token tells them apart",
            "SET GLOBAL innodb_flush_log_at_trx_commit=1, and the same in the server's option file",
        )),
        Some(value @ 2) => findings.push(Finding::warn(
            Check::Durability,
            format!("innodb_flush_log_at_trx_commit={value}"),
            "when the server's machine loses power, the grants of the last second are forgotten: two \
             may hold an action until the holder's next renewal; the token covers it",
            "SET GLOBAL innodb_flush_log_at_trx_commit=1, and the same in the server's option file",
        )),
        _ => {}
    }
    let is_logging = global.is_on("log_bin");
    if let Some(value) = global
        .number("sync_binlog")
        .filter(|value| *value != 1 && is_logging)
    {
        findings.push(Finding::warn(
            Check::Durability,
            format!("sync_binlog={value} with a binary log"),
            "when the server's machine loses power, what is not in the log is undone, also a grant: \
             two may hold an action until the holder's next renewal; the token covers it",
            "SET GLOBAL sync_binlog=1, and the same in the server's option file",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            Check::Durability,
            match is_logging {
                true => "each commit is on disk, and so is the binary log",
                false => "each commit is on disk",
            },
        ));
    }
    findings
}

/// Judges which commits a fail-over loses. The absence of replicas is only visible to an account that
/// sees all sessions; MariaDB shows their number to every account.
pub(super) fn replication(facts: &ServerFacts) -> Finding {
    let global = &facts.global;
    let semi_sync = global.is_on("rpl_semi_sync_master_enabled")
        || global.is_on("rpl_semi_sync_source_enabled");
    let clients = [
        "rpl_semi_sync_master_clients",
        "rpl_semi_sync_source_clients",
    ]
    .iter()
    .find_map(|name| global.number(name))
    .unwrap_or(0);
    if semi_sync && clients > 0 {
        return Finding::ok(
            Check::Replication,
            format!("semi-synchronous, {clients} acknowledge"),
        );
    }
    if semi_sync {
        return Finding::warn(
            Check::Replication,
            "semi-synchronous, but no replica acknowledges",
            "commits wait for the time-out and then go on alone, and a fail-over may lose the last \
             grant",
            "bring the replicas back, or turn semi-sync off on purpose",
        );
    }
    if facts.replicas > 0 {
        return Finding::warn(
            Check::Replication,
            format!("asynchronous, {} reading", facts.replicas),
            "a fail-over to a replica that has not seen the last grant makes a second holder until \
             the first one's next renewal; the token covers it",
            "turn on semi-synchronous replication, or compare tokens where it matters",
        );
    }
    Finding::ok(Check::Replication, "no replica in sight")
}

#[cfg(test)]
mod tests {
    use super::super::variables::ServerFacts;
    use super::{durability, replication, writes};
    use crate::store::check::{CheckStatus, Finding};

    fn is_warning(finding: &Finding) -> bool {
        matches!(finding.status, CheckStatus::Warn(_))
    }

    #[test]
    fn read_only_servers_fail_the_writes_check() {
        for name in [
            "read_only",
            "super_read_only",
            "innodb_read_only",
            "offline_mode",
        ] {
            let finding = writes(&ServerFacts::with(&[(name, "ON")]));
            assert!(finding.is_failure() && finding.fact.contains(name));
            let finding = writes(&ServerFacts::with(&[(name, "OFF")]));
            assert_eq!(finding.status, CheckStatus::Ok);
        }
        // Without a binary log, its format does not matter.
        let format = ("binlog_format", "STATEMENT");
        assert!(writes(&ServerFacts::with(&[("log_bin", "ON"), format])).is_failure());
        let finding = writes(&ServerFacts::with(&[("log_bin", "OFF"), format]));
        assert_eq!(finding.status, CheckStatus::Ok);
    }

    #[test]
    fn durability_settings_are_ok_warned_or_failed() {
        let findings_for = |flush, sync, log| {
            durability(&ServerFacts::with(&[
                ("innodb_flush_log_at_trx_commit", flush),
                ("sync_binlog", sync),
                ("log_bin", log),
            ]))
        };
        assert_eq!(findings_for("1", "1", "ON")[0].status, CheckStatus::Ok);
        assert_eq!(findings_for("1", "0", "OFF")[0].status, CheckStatus::Ok);
        assert!(is_warning(&findings_for("1", "0", "ON")[0]));
        assert!(is_warning(&findings_for("2", "1", "ON")[0]));
        assert!(findings_for("0", "1", "ON")[0].is_failure());
        assert_eq!(findings_for("0", "1000", "ON").len(), 2);
    }

    #[test]
    fn replicas_without_acknowledgement_are_warned() {
        let semi = |name: &str, clients| {
            let (on, count) = (
                format!("rpl_semi_sync_{name}_enabled"),
                format!("Rpl_semi_sync_{name}_clients"),
            );
            replication(&ServerFacts::with(&[(&on, "ON"), (&count, clients)]))
        };
        for name in ["master", "source"] {
            assert_eq!(semi(name, "2").status, CheckStatus::Ok);
            assert!(is_warning(&semi(name, "0")));
        }
        let replicas = |replicas| {
            replication(&ServerFacts {
                replicas,
                ..ServerFacts::default()
            })
        };
        assert!(is_warning(&replicas(1)));
        assert_eq!(replicas(0).status, CheckStatus::Ok);
    }
}
