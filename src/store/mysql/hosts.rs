//! The servers of one database, and what dlock knows about each of them.
//!
//! The order is the same for each new connection, so that all contenders prefer the same server. The only exception: for
//! some time, a server that has refused a request is tried last.

use std::time::Duration;

use super::statements::{self, MemberCheck};
use crate::lease::instant::BootInstant;
use crate::store::connected::SkippedHost;
use crate::store::target::{Target, Targets};
use crate::store::{Failure, FailureKind};
use crate::sys::clock;

/// What dlock found out about a host, or the reason why it cannot be used.
pub(super) type HostState = Result<FoundHost, Failure>;

/// A host that responds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundHost {
    /// True if the server refuses writes.
    pub(super) is_read_only: bool,
    /// Name of its cluster, or of the server if it belongs to no cluster.
    pub(super) cluster: String,
}

/// The servers of one database. One of them is the current server.
pub(super) struct Hosts {
    pub(super) targets: Targets,
    all: Vec<Host>,
    /// Number of the current server.
    pub(super) current: usize,
    /// True if the latest search has found only servers that refuse writes. The next request searches again.
    pub(super) is_fallback: bool,
}

/// A server, and what dlock knows about it.
pub(super) struct Host {
    pub(super) target: Target,
    /// The check that each new session makes.
    pub(super) member_check: MemberCheck,
    /// The latest refusal of a request because of the state of the server. None if there was none.
    refusal: Option<Refusal>,
}

/// A refusal of a request because of the state of the server.
struct Refusal {
    at: BootInstant,
    reason: String,
}

impl Host {
    /// Returns true if the server is known to be configured for Group Replication. Each packet then checks the state of
    /// the member.
    pub(super) fn is_in_group(&self) -> bool {
        self.member_check == MemberCheck::Require
    }

    /// Returns the text of `packet` for this server.
    pub(super) fn packet(&self, packet: String) -> String {
        match self.member_check {
            MemberCheck::Foreign => statements::without_version_comments(&packet),
            _ => packet,
        }
    }
}

impl Hosts {
    pub(super) fn new(targets: Targets) -> Self {
        let host = |target: &Target| Host {
            target: target.clone(),
            member_check: MemberCheck::Suspect,
            refusal: None,
        };
        let all = targets.iter().map(host).collect();
        Self {
            targets,
            all,
            current: 0,
            is_fallback: false,
        }
    }

    /// Returns the server of the open connection, or of the latest attempt to connect.
    pub(super) fn current(&self) -> &Host {
        &self.all[self.current]
    }

    pub(super) fn current_mut(&mut self) -> &mut Host {
        &mut self.all[self.current]
    }

    /// Returns the numbers of the hosts in the order of the next search. Hosts that have refused a request less than
    /// `memory` ago come last, with the reason.
    pub(super) fn next_order(&self, memory: Duration) -> Vec<(usize, Option<String>)> {
        let now = clock::now();
        let refusal = |host: &Host| {
            let refusal = host.refusal.as_ref();
            let recent = refusal.filter(|refusal| now.since(refusal.at) < memory);
            recent.map(|refusal| refusal.reason.clone())
        };
        let mut order: Vec<_> = self.all.iter().map(refusal).enumerate().collect();
        // The sort is stable.
        order.sort_by_key(|(_, refusal)| refusal.is_some());
        order
    }

    /// Returns the number of hosts.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Records that the current server refused a request because of its state. The next searches try it last.
    pub(super) fn record_refusal(&mut self, reason: String) {
        let at = clock::now();
        self.current_mut().refusal = Some(Refusal { at, reason });
    }

    /// Forgets all refusals, so that the next search uses the order of the settings.
    pub(super) fn forget_refusals(&mut self) {
        self.all.iter_mut().for_each(|host| host.refusal = None);
    }

    /// Returns the host `number` with the reason why it is not used.
    pub(super) fn skipped(&self, number: usize, reason: impl Into<String>) -> SkippedHost {
        SkippedHost::new(self.all[number].target.address.clone(), reason)
    }
}

/// Returns true if the next host is tried after a failure of this kind.
pub(super) const fn is_next_tried(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unreachable | FailureKind::TooManyConnections | FailureKind::Unknown
    )
}
