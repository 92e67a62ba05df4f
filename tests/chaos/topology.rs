//! The topologies on which a chaos run can be executed: a single server of each flavour,
//! clusters, and servers behind a proxy.

use std::fmt;

use testkit::servers::Flavour;

use crate::fault_kind::FaultKind;
use crate::testbed::Purpose;

/// Length in seconds of the short run on one server of each flavour, and on another topology. `cargo test` runs both.
const SINGLE_SECONDS: u64 = 30;
const SHORT_SECONDS: u64 = 20;

/// The servers of a chaos run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Single servers of one flavour.
    Single(Flavour),
    /// A Galera cluster of three nodes. The contenders use all nodes.
    Galera,
    /// A group of three MySQL servers with a single primary. The contenders have a list of all members.
    Group,
    /// A MariaDB server and its asynchronous replica behind HAProxy.
    Haproxy,
    /// A MySQL server and its asynchronous replica behind MySQL Router.
    Router,
}

impl Topology {
    /// Single servers of both flavours.
    pub(crate) const SINGLE: [Self; 2] =
        [Self::Single(Flavour::MariaDb), Self::Single(Flavour::MySql)];

    /// The topologies other than single servers.
    pub(crate) const OTHERS: [Self; 4] = [Self::Galera, Self::Group, Self::Haproxy, Self::Router];

    /// The topologies other than single servers that `cargo test` tests.
    pub(crate) const TESTED: [Self; 2] = [Self::Galera, Self::Haproxy];

    /// Returns the purposes of the sites.
    pub(crate) fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::Single(_) => &Purpose::SINGLE,
            Self::Galera => &[Purpose::Nodes],
            Self::Group => &[Purpose::Members],
            Self::Haproxy | Self::Router => &[Purpose::FailOver],
        }
    }

    /// Returns all kinds of faults of the sites, in the order of [`FaultKind::ALL`].
    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        let used: Vec<FaultKind> = (self.purposes().iter())
            .flat_map(|purpose| [purpose.kinds(), purpose.site_kinds()].concat())
            .collect();
        let mut kinds = FaultKind::ALL.to_vec();
        kinds.retain(|kind| used.contains(kind));
        kinds
    }

    /// Returns the length of a short run in seconds.
    pub(crate) fn short_seconds(self) -> u64 {
        match self {
            Self::Single(_) => SINGLE_SECONDS,
            _ => SHORT_SECONDS,
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(flavour) => flavour.fmt(f),
            Self::Galera => f.write_str("galera"),
            Self::Group => f.write_str("group"),
            Self::Haproxy => f.write_str("haproxy"),
            Self::Router => f.write_str("router"),
        }
    }
}
