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
        // On some servers, these variables have more values than on and off, for the kinds of writes that the server
        // refuses.
        .filter(|name| {
            let is_off = |value: &str| value.eq_ignore_ascii_case("off") || value == "0";
            global.get(name).is_some_and(|value| !is_off(value))
        })
        .collect();
    if !on.is_empty() {
        return Finding::fail(
            Check::Writes,
            format!("the server refuses writes: {} is on", on.join(", ")),
            "acquiring a lock is a write; this server is a replica or in maintenance",
            "use the primary, or an endpoint that always leads to the primary",
        );
    }
    if global.is_on("log_bin") && global.get("binlog_format") == Some("STATEMENT") {
        return Finding::fail(
            Check::Writes,
            "the server refuses dlock's writes: binlog_format is STATEMENT",
            "dlock's sessions use READ COMMITTED, which does not work with statement-based logging",
            "SET GLOBAL binlog_format=ROW (or MIXED), and the same in the server's option file",
        );
    }
    Finding::ok(Check::Writes, "the server accepts writes")
}

/// Judges which commits a crash of the server can lose.
pub(super) fn durability(facts: &ServerFacts) -> Vec<Finding> {
    let global = &facts.global;
    let mut findings = Vec::new();
    match global.number("innodb_flush_log_at_trx_commit") {
        Some(0) => findings.push(Finding::fail(
            Check::Durability,
            "innodb_flush_log_at_trx_commit=0",
            "a crash of the server process loses the grants of the last second: an action may have two \
             holders until the first holder's next renewal, and only the token distinguishes them",
            "SET GLOBAL innodb_flush_log_at_trx_commit=1, and the same in the server's option file",
        )),
        Some(value @ 2) => findings.push(Finding::warn(
            Check::Durability,
            format!("innodb_flush_log_at_trx_commit={value}"),
            "if the server's machine loses power, the grants of the last second are lost: an action may \
             have two holders until the first holder's next renewal, and only the token distinguishes them",
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
            "if the server's machine loses power, grants that are not in the log are undone: an action may \
             have two holders until the first holder's next renewal, and only the token distinguishes them",
            "SET GLOBAL sync_binlog=1, and the same in the server's option file",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            Check::Durability,
            match is_logging {
                true => "each commit is written to disk, and the binary log too",
                false => "each commit is written to disk",
            },
        ));
    }
    findings
}

/// Judges which commits a fail-over can lose. On MySQL, only an account that can see all sessions can
/// detect that there is no replica. MariaDB shows the number of replicas to every account.
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
            format!("semi-synchronous, acknowledging replicas: {clients}"),
        );
    }
    if semi_sync {
        return Finding::warn(
            Check::Replication,
            "semi-synchronous, but no replica acknowledges",
            "commits wait for the timeout and then continue without an acknowledgement, so a fail-over may \
             lose the latest grants",
            "repair the replicas, or turn off semi-synchronous replication if you accept this risk",
        );
    }
    if facts.replicas > 0 {
        return Finding::warn(
            Check::Replication,
            format!("asynchronous, connected replicas: {}", facts.replicas),
            "after a fail-over to a replica that lacks the latest grants, an action may have two holders until the \
             first holder's next renewal, and only the token distinguishes them",
            "turn on semi-synchronous replication, or compare tokens where two holders would do damage",
        );
    }
    Finding::ok(Check::Replication, "no replica is visible to this account")
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
        // If there is no binary log, its format does not matter.
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
    fn replicas_without_acknowledgement_cause_a_warning() {
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
