//! Checks the product and version of the server, and checks if the server is a node of a cluster.

use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};

/// Oldest series (major and minor number) without a warning. dlock has not been tried on earlier
/// series.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Judges product and version.
pub(super) fn server(facts: &ServerFacts) -> Finding {
    let version = &facts.version;
    let tested = "dlock is tested on MariaDB 10.11 and 11.8 and MySQL 9.7";
    let lower = version.to_lowercase();
    if let Some(name) = ["tidb", "vitess"].iter().find(|name| lower.contains(*name)) {
        return Finding::warn(
            Check::Server,
            format!("{version}, which is only compatible with MySQL's protocol"),
            format!("{name} has its own implementation of named locks and row locks; {tested}"),
            "use MySQL or MariaDB, or first test the features of dlock that you need",
        );
    }
    let (name, shown, oldest) = match facts.is_mariadb() {
        true => ("MariaDB", version.clone(), OLDEST_MARIADB),
        false => ("MySQL", format!("MySQL {version}"), OLDEST_MYSQL),
    };
    match series(version) {
        Some(series) if series >= oldest => Finding::ok(Check::Server, shown),
        _ => Finding::warn(
            Check::Server,
            shown,
            format!("{tested}; the behaviour of this version is unknown"),
            format!("use {name} {}.{} or later", oldest.0, oldest.1),
        ),
    }
}

/// Returns the major and minor number. Returns None if the version does not start with two numbers. MariaDB may prepend
/// `5.5.5-` because of old replication clients.
pub(super) fn series(version: &str) -> Option<(u32, u32)> {
    let version = match version.strip_prefix("5.5.5-") {
        Some(rest) if rest.contains("MariaDB") => rest,
        _ => version,
    };
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Judges the cluster of which the server is a node, if any.
pub(super) fn cluster(facts: &ServerFacts) -> Finding {
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
            false => multiple_writers("Group Replication, where every member accepts writes"),
        };
    }
    match global.get("aurora_version") {
        Some(version) => Finding::warn(
            Check::Cluster,
            format!("Aurora {version}"),
            "a reader instance refuses every attempt, and after a fail-over another instance is the writer",
            "use the writer endpoint of the cluster, not an instance endpoint or the reader endpoint",
        ),
        None => Finding::ok(Check::Cluster, "no cluster: a single server"),
    }
}

fn galera(facts: &ServerFacts) -> Finding {
    let global = &facts.global;
    let status = global.get("wsrep_cluster_status").unwrap_or("unknown");
    if !status.eq_ignore_ascii_case("primary") || !global.is_on("wsrep_ready") {
        return Finding::fail(
            Check::Cluster,
            format!("a Galera node that is not ready (component: {status})"),
            "the node refuses every statement that uses a table",
            "use a node of the primary component, or repair this node",
        );
    }
    match global.number("wsrep_cluster_size") {
        Some(1) => Finding::ok(Check::Cluster, "a Galera cluster of one node"),
        size => multiple_writers(&format!(
            "a node of a Galera cluster of {} nodes",
            size.unwrap_or(0)
        )),
    }
}

fn multiple_writers(what: &str) -> Finding {
    Finding::warn(
        Check::Cluster,
        what,
        "each node has its own named locks and its own clock: waiters are in order only if they wait on \
         the same node, and a node whose clock is far ahead can end a lease too early",
        "on all machines, use the same node or an endpoint that leads to one writer",
    )
}

#[cfg(test)]
mod tests {
    use super::super::variables::ServerFacts;
    use super::{cluster, server};
    use crate::store::check::CheckStatus;

    fn is_warning(status: &CheckStatus) -> bool {
        matches!(status, CheckStatus::Warn(_))
    }

    #[test]
    fn old_series_and_compatible_servers_get_a_warning() {
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
            let facts = ServerFacts {
                version: version.to_owned(),
                ..ServerFacts::default()
            };
            let finding = server(&facts);
            assert!(finding.fact.contains(version), "{finding:?}");
            assert_eq!(finding.status == CheckStatus::Ok, is_good, "{finding:?}");
            assert_eq!(is_warning(&finding.status), !is_good, "{finding:?}");
        }
    }

    #[test]
    fn cluster_nodes_are_distinguished_from_single_servers() {
        let galera = |status, size, ready| {
            cluster(&ServerFacts::with(&[
                ("wsrep_on", "ON"),
                ("wsrep_cluster_status", status),
                ("wsrep_cluster_size", size),
                ("wsrep_ready", ready),
            ]))
        };
        assert!(is_warning(&galera("Primary", "3", "ON").status));
        assert_eq!(galera("Primary", "1", "ON").status, CheckStatus::Ok);
        assert!(galera("non-Primary", "1", "OFF").is_failure());
        assert!(galera("Primary", "3", "OFF").is_failure());

        let group = |mode| {
            cluster(&ServerFacts::with(&[
                ("group_replication_group_name", "8a94f357"),
                ("group_replication_single_primary_mode", mode),
            ]))
        };
        assert_eq!(group("ON").status, CheckStatus::Ok);
        assert!(is_warning(&group("OFF").status));

        let aurora = cluster(&ServerFacts::with(&[("aurora_version", "3.08.0")]));
        assert!(is_warning(&aurora.status) && aurora.fact.contains("3.08.0"));
        for single in [
            [("wsrep_on", "OFF"), ("group_replication_group_name", "")],
            [("wsrep_on", "ON"), ("wsrep_provider", "none")],
        ] {
            let finding = cluster(&ServerFacts::with(&single));
            assert_eq!(finding.status, CheckStatus::Ok, "{finding:?}");
        }
    }
}
