//! The topologies on which a chaos run can be executed: a single server of each flavour,
//! clusters, and servers behind a proxy.

use strum::{Display, EnumString, VariantNames};
use testkit::servers::Flavour;

use crate::fault_kind::FaultKind;
use crate::testbed::Purpose;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Topology {
    MariaDb,
    MySql,
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
    pub(crate) const SINGLE: [Self; 2] = [Self::MariaDb, Self::MySql];

    /// The topologies other than single servers that `cargo test` tests.
    pub(crate) const TESTED: [Self; 2] = [Self::Galera, Self::Haproxy];

    pub(crate) fn flavour(self) -> Flavour {
        match self {
            Self::MariaDb | Self::Galera | Self::Haproxy => Flavour::MariaDb,
            Self::MySql | Self::Group | Self::Router => Flavour::MySql,
        }
    }

    pub(crate) fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::MariaDb | Self::MySql => &Purpose::SINGLE,
            Self::Galera => &[Purpose::Nodes],
            Self::Group => &[Purpose::Members],
            Self::Haproxy | Self::Router => &[Purpose::FailOver],
        }
    }

    /// Returns all kinds of faults of the sites, in the order of [`FaultKind::ALL`].
    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        let mut kinds = FaultKind::ALL.to_vec();
        kinds.retain(|kind| {
            let mut purposes = self.purposes().iter();
            purposes.any(|purpose| {
                purpose.kinds().contains(kind) || purpose.site_kinds().contains(kind)
            })
        });
        kinds
    }
}
