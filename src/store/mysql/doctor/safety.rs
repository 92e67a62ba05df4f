//! Whether the server takes writes, and whether it remembers them: after a crash, and after a
//! fail-over.

use super::facts::Facts;
use crate::store::finding::{Check, Finding};

/// Judges whether anybody may write, in the way that dlock does.
pub(super) fn writes(facts: &Facts) -> Finding {
    let global = &facts.global;
    let read_only = [
        "read_only",
        "super_read_only",
        "innodb_read_only",
        "offline_mode",
    ];
    let on: Vec<&str> = read_only
        .into_iter()
        // Some servers have more words than on and off for how much is refused.
        .filter(|name| {
            let is_off = |value: &str| value.eq_ignore_ascii_case("off") || value == "0";
            global.get(name).is_some_and(|value| !is_off(value))
        })
        .collect();
    if !on.is_empty() {
        return Finding::mend(
            Check::Writes,
            format!("refused: {} is on", on.join(", ")),
            "to take a lock is to write; this is a replica, or a server under repair",
            "name the primary, or an endpoint that follows it",
        );
    }
    if global.is_on("log_bin") && global.get("binlog_format") == Some("STATEMENT") {
        return Finding::mend(
            Check::Writes,
            "refused: binlog_format is STATEMENT",
            "dlock's sessions are READ COMMITTED, whose changes the server does not log by statement",
            "SET GLOBAL binlog_format=ROW (or MIXED), and the same in the server's option file",
        );
    }
    Finding::ok(Check::Writes, "the server takes them")
}

/// Judges what a crash of the server forgets.
pub(super) fn durability(facts: &Facts) -> Vec<Finding> {
    let global = &facts.global;
    let mut findings = Vec::new();
    match global.number("innodb_flush_log_at_trx_commit") {
        Some(0) => findings.push(Finding::mend(
            Check::Durability,
            "innodb_flush_log_at_trx_commit=0",
            "a mere crash of the server forgets the grants of the last second: another host is \
             granted the same action until the holder's next renewal; only the token tells them apart",
            "SET GLOBAL innodb_flush_log_at_trx_commit=1, and the same in the server's option file",
        )),
        Some(value @ 2) => findings.push(Finding::note(
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
        findings.push(Finding::note(
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

/// Judges what a fail-over forgets. That there is no replica is only known to accounts that see
/// all sessions; MariaDB counts them for everybody.
pub(super) fn replication(facts: &Facts) -> Finding {
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
        return Finding::note(
            Check::Replication,
            "semi-synchronous, but no replica acknowledges",
            "commits wait for the time-out and then go on alone, and a fail-over may lose the last \
             grant",
            "bring the replicas back, or turn semi-sync off on purpose",
        );
    }
    if facts.replicas > 0 {
        return Finding::note(
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
    use super::super::facts::Facts;
    use super::{durability, replication, writes};
    use crate::store::finding::{Finding, Verdict};

    fn is_note(finding: &Finding) -> bool {
        matches!(finding.verdict, Verdict::Note(_))
    }

    #[test]
    fn whatever_makes_a_server_read_only_must_be_mended() {
        for name in [
            "read_only",
            "super_read_only",
            "innodb_read_only",
            "offline_mode",
        ] {
            let finding = writes(&Facts::with(&[(name, "ON")]));
            assert!(finding.is_mend() && finding.fact.contains(name));
            let finding = writes(&Facts::with(&[(name, "OFF")]));
            assert_eq!(finding.verdict, Verdict::Ok);
        }
        // Without a binary log its format does not matter.
        let format = ("binlog_format", "STATEMENT");
        assert!(writes(&Facts::with(&[("log_bin", "ON"), format])).is_mend());
        let finding = writes(&Facts::with(&[("log_bin", "OFF"), format]));
        assert_eq!(finding.verdict, Verdict::Ok);
    }

    #[test]
    fn what_a_crash_forgets_is_graded() {
        let judged = |flush, sync, log| {
            durability(&Facts::with(&[
                ("innodb_flush_log_at_trx_commit", flush),
                ("sync_binlog", sync),
                ("log_bin", log),
            ]))
        };
        assert_eq!(judged("1", "1", "ON")[0].verdict, Verdict::Ok);
        assert_eq!(judged("1", "0", "OFF")[0].verdict, Verdict::Ok);
        assert!(is_note(&judged("1", "0", "ON")[0]));
        assert!(is_note(&judged("2", "1", "ON")[0]));
        assert!(judged("0", "1", "ON")[0].is_mend());
        assert_eq!(judged("0", "1000", "ON").len(), 2);
    }

    #[test]
    fn replicas_that_do_not_acknowledge_are_noted() {
        let semi = |name: &str, clients| {
            let (on, count) = (
                format!("rpl_semi_sync_{name}_enabled"),
                format!("Rpl_semi_sync_{name}_clients"),
            );
            replication(&Facts::with(&[(&on, "ON"), (&count, clients)]))
        };
        for name in ["master", "source"] {
            assert_eq!(semi(name, "2").verdict, Verdict::Ok);
            assert!(is_note(&semi(name, "0")));
        }
        let replicas = |replicas| {
            replication(&Facts {
                replicas,
                ..Facts::default()
            })
        };
        assert!(is_note(&replicas(1)));
        assert_eq!(replicas(0).verdict, Verdict::Ok);
    }
}
