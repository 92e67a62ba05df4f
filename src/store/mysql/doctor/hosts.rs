//! Findings for several hosts: for each host, whether it responds and accepts writes, and whether dlock uses it.

use std::time::Duration;

use super::super::database::Database;
use super::super::hosts::{HostState, is_next_tried};
use crate::store::check::{Check, Finding};
use crate::store::target::{Target, Targets};

/// Returns one finding for each host, and the host that the next request would use. If no host accepts writes, returns
/// the first one that responds, or else the first host. With one host, there is no finding.
pub(super) fn examine(targets: &Targets, limit: Duration) -> (Vec<Finding>, &Target) {
    if !targets.are_several() {
        return (Vec::new(), targets.first());
    }
    let states = Database::new(targets.clone(), limit, limit).host_states();
    let used = used(&states);
    let each = targets.iter().zip(&states).enumerate();
    let own = used.and_then(|number| states[number].as_ref().ok());
    let findings = each.map(|(number, (target, state))| match (state, own) {
        (Ok(found), Some(own)) if !found.is_read_only && found.cluster != own.cluster => {
            other_writer(target)
        }
        _ => finding(target, state, used == Some(number)),
    });
    let findings = findings.collect();
    let read_only = || {
        states
            .iter()
            .position(|state| matches!(state, Ok(it) if it.is_read_only))
    };
    let number = used.or_else(read_only).unwrap_or(0);
    let target = targets.iter().nth(number).unwrap_or(targets.first());
    (findings, target)
}

/// Returns the number of the host at which the search for a server ends. None if no host accepts writes.
fn used(states: &[HostState]) -> Option<usize> {
    states.iter().position(|state| match state {
        Ok(found) => !found.is_read_only,
        Err(failure) => !is_next_tried(failure.kind),
    })
}

/// Returns the finding for a second server that accepts writes and belongs to another cluster than the first one.
fn other_writer(target: &Target) -> Finding {
    Finding::fail(
        Check::Hosts,
        format!(
            "{} also accepts writes, and is not in the same cluster as the host that exec uses",
            target.address
        ),
        "dlock processes that use different servers do not exclude each other, so two commands can run at the same time",
        "make the server read-only if it is a replica or an old primary, or remove the host from the list",
    )
}

fn finding(target: &Target, state: &HostState, is_used: bool) -> Finding {
    let address = &target.address;
    match state {
        Ok(found) if found.is_read_only => {
            let fact = format!("{address} is read-only, so exec does not use it");
            Finding::ok(Check::Hosts, fact)
        }
        Ok(_) if is_used => {
            let fact = format!("{address} accepts writes, and exec uses it");
            Finding::ok(Check::Hosts, fact)
        }
        Ok(_) => Finding::ok(
            Check::Hosts,
            format!(
                "{address} accepts writes, and exec uses it only if no earlier host accepts writes"
            ),
        ),
        Err(failure) if is_used => Finding::fail(
            Check::Hosts,
            &failure.message,
            "exec does not try the hosts after this one, because you must know about such an error",
            "fix the cause on this host, or remove the host from the list",
        ),
        Err(failure) => Finding::warn(
            Check::Hosts,
            &failure.message,
            "exec cannot use this host now, but tries it again for later connections",
            "start the server, or remove the host from the list",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::hosts::FoundHost;
    use super::{HostState, used};
    use crate::store::{Failure, FailureKind};

    #[test]
    fn search_ends_at_the_first_writer_or_at_a_refused_login() {
        let found = |is_read_only| -> HostState {
            Ok(FoundHost {
                is_read_only,
                cluster: "one".to_owned(),
            })
        };
        let failed = |kind| -> HostState { Err(Failure::new(kind, "no")) };
        let silent = || failed(FailureKind::Unreachable);
        let denied = || failed(FailureKind::LoginRefused);
        for (states, wanted) in [
            (vec![found(false), found(false)], Some(0)),
            (vec![silent(), found(true), found(false)], Some(2)),
            (vec![silent(), denied(), found(false)], Some(1)),
            (vec![found(false), denied()], Some(0)),
            (vec![silent(), found(true)], None),
        ] {
            assert_eq!(used(&states), wanted, "{states:?}");
        }
    }
}
