//! The contender of a request, and the identity that it reports.

use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::once::Once;

/// Identity that a holder reports. It is shown to users and is never part of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// `--holder`; by default `host/pid`.
    pub label: String,
    /// Host name. In Kubernetes this is the name of the pod.
    pub host: String,
    /// Process id of dlock on `host`.
    pub pid: u32,
    /// Operating-system user.
    pub user: String,
    /// `--note`. Empty if not given.
    pub note: String,
    /// Name of the Kubernetes pod. Empty if the environment does not contain it.
    pub pod: String,
    /// Namespace of the pod. Empty if the environment does not contain it.
    pub namespace: String,
    /// Name of the command without its arguments, which may contain secrets.
    pub command: String,
}

/// Data that is the same in all requests of one process.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The lock.
    pub action: Action,
    /// Holder as `status` shows it.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// Which recorded success makes a run unnecessary. None runs the command in any case.
    pub once: Option<Once>,
    /// Number of runs of the action that stay in the history. With 0, runs are not recorded.
    pub history: u32,
    /// Use of the fence by the command.
    pub fence: FenceMode,
}

/// Effect of a grant on the fence of the action: the row that a command's own transaction locks, so that
/// no other contender is granted the action before the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceMode {
    /// Creates the fence if it does not exist, and advances it.
    Advance,
    /// Leaves the fence as it is, unless another contender has created one.
    Unchanged,
}
