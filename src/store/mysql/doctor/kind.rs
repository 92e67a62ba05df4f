//! What server it is, and whether it is one node of several.

use super::facts::Facts;
use crate::store::finding::{Check, Finding};

/// Series before these, by major and minor number, are noted: nobody has tried them.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Judges flavour and version.
pub(super) fn server(facts: &Facts) -> Finding {
    let version = &facts.version;
    let tested = "dlock is tested on MariaDB 10.11 and MySQL 9.7";
    let lower = version.to_lowercase();
    if let Some(name) = ["tidb", "vitess"].iter().find(|name| lower.contains(*name)) {
        return Finding::note(
            Check::Server,
            format!("{version}, which only speaks MySQL's protocol"),
            format!("named locks and row locks of {name} are its own; {tested}"),
            "use a MySQL or MariaDB, or try what you rely on first",
        );
    }
    let is_mariadb = lower.contains("mariadb");
    // MariaDB names itself in its version.
    let (name, shown, oldest) = match is_mariadb {
        true => ("MariaDB", version.clone(), OLDEST_MARIADB),
        false => ("MySQL", format!("MySQL {version}"), OLDEST_MYSQL),
    };
    match series(version) {
        Some(series) if series >= oldest => Finding::ok(Check::Server, shown),
        _ => Finding::note(
            Check::Server,
            shown,
            format!("{tested}; what this one does is not known"),
            format!("use {name} {}.{} or later", oldest.0, oldest.1),
        ),
    }
}

/// Major and minor number. Old replication clients made MariaDB put `5.5.5-` in front.
fn series(version: &str) -> Option<(u32, u32)> {
    let version = match version.strip_prefix("5.5.5-") {
        Some(rest) if rest.contains("MariaDB") => rest,
        _ => version,
    };
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Judges whether the server is a node of a cluster.
pub(super) fn cluster(facts: &Facts) -> Finding {
    let global = &facts.global;
    if facts.is_galera() {
        return galera(facts);
    }
    if global
        .get("group_replication_group_name")
        .is_some_and(|name| !name.is_empty())
    {
        return match global.is_on("group_replication_single_primary_mode") {
            true => Finding::ok(Check::Cluster, "Group Replication with a single primary"),
            false => several("Group Replication, where every member takes writes"),
        };
    }
    match global.get("aurora_version") {
        Some(version) => Finding::note(
            Check::Cluster,
            format!("Aurora {version}"),
            "a reader refuses every attempt, and after a fail-over the writer is another instance",
            "name the writer endpoint of the cluster, not an instance or the reader endpoint",
        ),
        None => Finding::ok(Check::Cluster, "none: a server of its own"),
    }
}

fn galera(facts: &Facts) -> Finding {
    let global = &facts.global;
    let status = global.get("wsrep_cluster_status").unwrap_or("unknown");
    if !status.eq_ignore_ascii_case("primary") || !global.is_on("wsrep_ready") {
        return Finding::mend(
            Check::Cluster,
            format!("a Galera node that is not in service (component: {status})"),
            "it refuses every statement that touches a table",
            "name a node of the primary component, or bring this one back",
        );
    }
    match global.number("wsrep_cluster_size") {
        Some(1) => Finding::ok(Check::Cluster, "a Galera cluster of one node"),
        size => several(&format!(
            "a node of a Galera cluster of {}",
            size.unwrap_or(0)
        )),
    }
}

fn several(what: &str) -> Finding {
    Finding::note(
        Check::Cluster,
        what,
        "named locks and clocks are each node's own: order holds only among those who wait at one \
         node, and a clock that is far ahead can end a lease too early",
        "name the same node, or an endpoint that leads to one writer, on all machines",
    )
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::{cluster, server};
    use crate::store::finding::Verdict;

    fn is_note(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Note(_))
    }

    #[test]
    fn old_series_and_look_alikes_are_noted() {
        for (version, is_good) in [
            ("10.11.19-MariaDB-0+deb12u1-log", true),
            ("5.5.5-10.6.4-MariaDB", true),
            ("11.8.2-MariaDB", true),
            ("10.5.9-MariaDB", false),
            ("9.7.4-2", true),
            ("8.0.36", true),
            ("5.7.44-log", false),
            ("8.0.11-TiDB-v8.1.0", false),
            ("8.0.30-Vitess", false),
            ("what?", false),
        ] {
            let facts = Facts {
                version: version.to_owned(),
                ..Facts::default()
            };
            let finding = server(&facts);
            assert!(finding.fact.contains(version), "{finding:?}");
            assert_eq!(finding.verdict == Verdict::Ok, is_good, "{finding:?}");
            assert_eq!(is_note(&finding.verdict), !is_good, "{finding:?}");
        }
    }

    #[test]
    fn nodes_of_a_cluster_are_told_from_single_servers() {
        let galera = |status, size, ready| {
            cluster(&Facts::with(&[
                ("wsrep_on", "ON"),
                ("wsrep_cluster_status", status),
                ("wsrep_cluster_size", size),
                ("wsrep_ready", ready),
            ]))
        };
        assert!(is_note(&galera("Primary", "3", "ON").verdict));
        assert_eq!(galera("Primary", "1", "ON").verdict, Verdict::Ok);
        assert!(galera("non-Primary", "1", "OFF").is_mend());
        assert!(galera("Primary", "3", "OFF").is_mend());

        let group = |mode| {
            cluster(&Facts::with(&[
                ("group_replication_group_name", "8a94f357"),
                ("group_replication_single_primary_mode", mode),
            ]))
        };
        assert_eq!(group("ON").verdict, Verdict::Ok);
        assert!(is_note(&group("OFF").verdict));

        let aurora = cluster(&Facts::with(&[("aurora_version", "3.08.0")]));
        assert!(is_note(&aurora.verdict) && aurora.fact.contains("3.08.0"));
        for single in [
            [("wsrep_on", "OFF"), ("group_replication_group_name", "")],
            [("wsrep_on", "ON"), ("wsrep_provider", "none")],
        ] {
            let finding = cluster(&Facts::with(&single));
            assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
        }
    }
}
