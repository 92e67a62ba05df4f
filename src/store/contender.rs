//! Data about a contender that is the same in all its requests, and the identity that it reports.

use std::time::Duration;

use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::once::Once;

/// Identity that a holder reports. It is shown to users. No grant, renewal or release depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// `--holder`; by default `host/pid`.
    pub label: String,
    /// Host name. In Kubernetes this is normally the name of the pod.
    pub host: String,
    /// Process id of dlock on `host`.
    pub pid: u32,
    /// Operating-system user.
    pub user: String,
    /// `--note`. Empty if the option is not set.
    pub note: String,
    /// Name of the Kubernetes pod. Empty if the environment does not contain it.
    pub pod: String,
    /// Namespace of the pod. Empty if the environment does not contain it.
    pub namespace: String,
    /// The words of the command, with secrets replaced, or only its name.
    pub command: String,
}

/// Data about a contender that is the same in all its requests.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Name of the lock.
    pub action: Action,
    /// Identity that `status` shows.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// The limit of the lease.
    pub limit: Limit,
    /// Kind of recorded success that makes a run unnecessary. None if the command runs regardless of earlier successes.
    pub once: Option<Once>,
    /// Number of entries of the action to keep in the history. If it is 0, the runs of this contender are not recorded.
    pub history: u32,
    /// Effect of a grant on the fence of the action.
    pub fence: FenceMode,
    /// The lease under which this contender runs. None if no `dlock exec` has started it, or one with another database.
    pub inside: Option<OuterLease>,
}

impl Contender {
    /// Returns a contender that never starts a command, with the identity `holder`. It records no run, and leaves the
    /// fence unchanged.
    #[must_use]
    pub const fn without_command(action: Action, holder: Holder, ttl: Duration) -> Self {
        Self {
            action,
            holder,
            ttl,
            limit: Limit::ONE,
            once: None,
            history: 0,
            fence: FenceMode::Unchanged,
            inside: None,
        }
    }

    /// Returns this contender for requests that do not need the recorded success.
    #[must_use]
    pub fn without_once(self) -> Self {
        Self { once: None, ..self }
    }
}

/// The lease of the innermost `dlock exec` whose command started a contender. It is only shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterLease {
    /// Action of the lease.
    pub action: Action,
    /// Token of the lease.
    pub token: Token,
}

/// Effect of a grant on the fence of the action. The fence is a row that the command can lock in its own transaction,
/// so that no other contender is granted the action before that transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceMode {
    /// Creates the fence if it does not exist, and advances it.
    Advance,
    /// Does not create a fence. Advances the fence only if another contender has created it.
    Unchanged,
}
