//! Checks if the server is a node of a cluster, and if dlock can use this node.

use super::super::group::{GroupView, MemberState};
use super::super::schema::group_grant;
use super::super::statements::GROUP_MEMBERS;
use super::session::{QueryError, Session};
use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};

/// Queries the server for the members of its group. Returns None if the server is not configured for Group Replication,
/// and an error if the account may not read the members.
pub(super) fn query_group(
    session: &mut Session,
    facts: &ServerFacts,
) -> Result<Option<GroupView>, QueryError> {
    if !is_in_group(facts) {
        return Ok(None);
    }
    let rows = session.query(GROUP_MEMBERS)?.pop().unwrap_or_default();
    Ok(Some(GroupView::read(rows)))
}

fn is_in_group(facts: &ServerFacts) -> bool {
    let name = facts.global.get("group_replication_group_name");
    name.is_some_and(|name| !name.is_empty())
}

/// Returns the finding for an account that may not read the members of the group.
pub(super) fn group_is_hidden(facts: &ServerFacts) -> Finding {
    Finding::fail(
        Check::Cluster,
        "configured for Group Replication, but this account cannot see the members of the group",
        "a server outside its group may accept writes that the group never gets, so dlock refuses a server \
         whose state it does not know",
        group_grant(&super::grants::quoted(&facts.account)),
    )
}

/// Judges the cluster of which the server is a node, if any. `group` is the group of the server. None if the server is
/// not configured for Group Replication.
pub(super) fn cluster(facts: &ServerFacts, group: Option<&GroupView>) -> Finding {
    if facts.is_galera() {
        return galera(facts);
    }
    if facts.has_left_galera() {
        return Finding::fail(
            Check::Cluster,
            "a Galera node with wsrep_on=OFF",
            "the other nodes do not get the grants that this node accepts, so they can start a second command",
            "SET GLOBAL wsrep_on=ON on this node, or use another node",
        );
    }
    if let Some(group) = group {
        return group_member(facts, group);
    }
    match facts.global.get("aurora_version") {
        Some(version) => Finding::warn(
            Check::Cluster,
            format!("Aurora {version}"),
            "a reader instance refuses every attempt, and after a fail-over another instance is the writer",
            "use the writer endpoint of the cluster, not an instance endpoint or the reader endpoint",
        ),
        None => Finding::ok(Check::Cluster, "no cluster: a single server"),
    }
}

fn group_member(facts: &ServerFacts, group: &GroupView) -> Finding {
    let state = group.own_state();
    let why = match &state {
        MemberState::NotOnline(_) => {
            "dlock refuses this server, because the group would not get the grants that the server accepts"
        }
        MemberState::NoMajority(..) => {
            "dlock refuses this server, because each write waits until the member reaches a majority again"
        }
        MemberState::Secondary => "acquiring a lock is a write",
        MemberState::Primary(_) if facts.global.is_on("group_replication_single_primary_mode") => {
            return Finding::ok(
                Check::Cluster,
                format!("Group Replication with a single primary: {state}"),
            );
        }
        MemberState::Primary(_) => {
            return multiple_writers("Group Replication, where every member accepts writes");
        }
    };
    Finding::fail(Check::Cluster, state.to_string(), why, group.advice())
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
    let size = global.number("wsrep_cluster_size").unwrap_or(0);
    let configured = configured_nodes(facts);
    if size * 2 <= configured {
        return Finding::warn(
            Check::Cluster,
            format!("a Galera cluster of {size} of {configured} configured nodes"),
            "if an operator has forced this part to be primary (pc.bootstrap) while other nodes are primary too, \
             the same action can have a holder in each part, and dlock cannot detect it",
            "make sure that no other node of the cluster accepts writes, then let the other nodes join",
        );
    }
    if global.is_on("wsrep_desync") {
        return Finding::warn(
            Check::Cluster,
            format!("a desynced node of a Galera cluster of {size} nodes"),
            "grants stay exclusive, but the node may apply the writes of other nodes late, and its dlock status may \
             be out of date",
            "SET GLOBAL wsrep_desync=OFF on this node, or use another node",
        );
    }
    match size {
        1 => Finding::ok(Check::Cluster, "a Galera cluster of one node"),
        size => multiple_writers(&format!("a node of a Galera cluster of {size} nodes")),
    }
}

/// Returns the number of nodes in the settings of this node, which counts itself even if its list lacks its address.
fn configured_nodes(facts: &ServerFacts) -> u64 {
    let list = facts
        .global
        .get("wsrep_cluster_address")
        .unwrap_or_default();
    let list = list.trim_start_matches("gcomm://");
    let list = list.split('?').next().unwrap_or_default();
    let own = facts.global.get("wsrep_node_address").unwrap_or_default();
    let nodes: Vec<&str> = list.split(',').filter(|node| !node.is_empty()).collect();
    let host = |address: &str| address.split(':').next().unwrap_or_default().to_owned();
    // Several nodes on one host differ only in their ports. An address without a port is on the default port.
    let is_own = |node: &str| {
        node == own || (host(node) == host(own) && !(node.contains(':') && own.contains(':')))
    };
    let is_listed = nodes.iter().any(|node| is_own(node));
    let others = nodes.len() as u64;
    match is_listed || own.is_empty() || nodes.is_empty() {
        true => others,
        false => others + 1,
    }
}

fn multiple_writers(what: &str) -> Finding {
    Finding::warn(
        Check::Cluster,
        what,
        "each node has its own named locks and its own clock: a waiter on another node gets the lease up to a \
         second later, and a node whose clock is far ahead can end a lease too early",
        "on all machines, use the same node or an endpoint that leads to one writer",
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::group::GroupView;
    use super::super::variables::ServerFacts;
    use super::cluster;
    use crate::store::check::{CheckStatus, Finding};

    fn is_warning(finding: &Finding) -> bool {
        matches!(finding.status, CheckStatus::Warn(_))
    }

    #[test]
    fn galera_nodes_are_ok_only_if_they_are_a_whole_cluster() {
        let galera = |status, size, ready, more: (&str, &str)| {
            let facts = ServerFacts::with(&[
                ("wsrep_on", "ON"),
                ("wsrep_cluster_status", status),
                ("wsrep_cluster_size", size),
                ("wsrep_ready", ready),
                ("wsrep_node_address", "10.0.0.3"),
                more,
            ]);
            cluster(&facts, None)
        };
        let list = |addresses| ("wsrep_cluster_address", addresses);
        let all = list("gcomm://10.0.0.1,10.0.0.2,10.0.0.3?x=1");
        assert!(
            galera("Primary", "3", "ON", all)
                .fact
                .contains("of 3 nodes")
        );
        assert!(
            galera("Primary", "2", "ON", all)
                .fact
                .contains("of 2 nodes")
        );
        for few in [all, list("gcomm://10.0.0.1,10.0.0.2")] {
            let finding = galera("Primary", "1", "ON", few);
            assert!(is_warning(&finding), "{finding:?}");
            assert!(finding.fact.contains("1 of 3 configured"), "{finding:?}");
        }
        let desynced = galera("Primary", "3", "ON", ("wsrep_desync", "ON"));
        assert!(desynced.fact.contains("desynced"), "{desynced:?}");
        for alone in ["gcomm://", "gcomm://10.0.0.3:4567"] {
            let finding = galera("Primary", "1", "ON", list(alone));
            assert_eq!(finding.status, CheckStatus::Ok, "{finding:?}");
        }
        assert!(galera("non-Primary", "1", "OFF", all).is_failure());
        assert!(galera("Primary", "3", "OFF", all).is_failure());
    }

    #[test]
    fn group_members_are_ok_only_if_they_are_the_primary() {
        let member = |own: &str, state: &str, role: &str| {
            [own, state, role, "db:3306"]
                .map(|cell| Some(cell.to_owned()))
                .to_vec()
        };
        let primary = member("0", "ONLINE", "PRIMARY");
        let judge = |mode, rows| {
            let facts = ServerFacts::with(&[("group_replication_single_primary_mode", mode)]);
            cluster(&facts, Some(&GroupView::read(rows)))
        };
        let only = || vec![member("1", "ONLINE", "PRIMARY")];
        assert_eq!(judge("ON", only()).status, CheckStatus::Ok);
        assert!(is_warning(&judge("OFF", only())));
        for own in [
            member("1", "ONLINE", "SECONDARY"),
            member("1", "RECOVERING", "SECONDARY"),
            member("1", "ERROR", ""),
        ] {
            let finding = judge("ON", vec![primary.clone(), own]);
            assert!(finding.is_failure(), "{finding:?}");
        }
        let cut_off = vec![
            member("1", "ONLINE", "PRIMARY"),
            member("0", "UNREACHABLE", "SECONDARY"),
        ];
        assert!(judge("ON", cut_off).is_failure());
    }

    #[test]
    fn single_servers_are_no_clusters() {
        let aurora = cluster(&ServerFacts::with(&[("aurora_version", "3.04.0")]), None);
        assert!(is_warning(&aurora) && aurora.fact.contains("3.04.0"));
        for single in [("wsrep_on", "OFF"), ("wsrep_provider", "none")] {
            let facts = ServerFacts::with(&[("wsrep_on", "ON"), single]);
            let finding = cluster(&facts, None);
            assert_eq!(finding.status, CheckStatus::Ok, "{finding:?}");
        }
        let without_provider = [("wsrep_on", "OFF"), ("wsrep_provider", "none")];
        let finding = cluster(&ServerFacts::with(&without_provider), None);
        assert_eq!(finding.status, CheckStatus::Ok, "{finding:?}");
    }

    #[test]
    fn galera_node_that_does_not_replicate_its_writes_is_a_failure() {
        let facts = [("wsrep_on", "OFF"), ("wsrep_provider", "/lib/libgalera.so")];
        let finding = cluster(&ServerFacts::with(&facts), None);
        assert!(finding.is_failure(), "{finding:?}");
    }
}
