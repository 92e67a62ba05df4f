//! Findings of `dlock doctor`. Each finding contains one fact and its status.
//!
//! This file contains only types. `store::mysql::doctor` sends the queries and judges the results.

use strum::{IntoStaticStr, VariantArray};

/// The checks, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// With several hosts: which hosts respond, accept writes and are used.
    Hosts,
    /// `/proc` shows the processes of this machine or container.
    Processes,
    /// The host name resolves.
    Address,
    /// The server accepts the connection.
    Connect,
    /// Encryption of the connection.
    Tls,
    /// The server accepts the login.
    Login,
    /// The database exists, and the account may use it.
    Database,
    /// Product and version of the server.
    Server,
    /// Kind of cluster of which the server is a node, if any.
    Cluster,
    /// No proxy between dlock and the server interprets the protocol.
    Proxy,
    /// The server keeps the settings of dlock's session.
    Session,
    /// The server accepts writes.
    Writes,
    /// The account has the privileges that `exec` needs.
    Grants,
    /// The tables match the definitions with which dlock creates them.
    Tables,
    /// dlock's account can see and end the sessions of the account that the command uses.
    SessionUser,
    /// Named locks work as the queue requires.
    NamedLocks,
    /// A crash of the server does not undo grants.
    Durability,
    /// A fail-over does not undo grants.
    Replication,
    /// Difference between the clocks of the server and this host.
    Clock,
    /// Time that a request takes.
    RoundTrip,
    /// Number of connections that further holders and waiters can use.
    Connections,
}

impl Check {
    /// All checks, in the order in which they run.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name of the check in text and JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Status of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckStatus {
    /// No problem was found.
    Ok,
    /// dlock works, but the fact has a consequence that the operator should know.
    Warn(Advice),
    /// dlock does not work, or does not keep its guarantees, until the problem is fixed.
    Fail(Advice),
    /// The check did not run, or its result is unknown.
    Skipped,
}

/// Advice about a warning or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Reason why the fact matters.
    pub why: String,
    /// Instructions to fix the problem.
    pub fix: String,
}

impl Advice {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            fix: fix.into(),
        }
    }
}

/// One fact and its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Check that found the fact.
    pub check: Check,
    /// Status of the check.
    pub status: CheckStatus,
    /// The observed fact. It may contain text from the server. The code that prints the fact escapes it.
    pub fact: String,
}

impl Finding {
    /// Returns a finding for a check that found no problem.
    pub fn ok(check: Check, fact: impl Into<String>) -> Self {
        Self::new(check, CheckStatus::Ok, fact)
    }

    /// Returns a warning. dlock works, but the fact has a consequence that the operator should know.
    pub fn warn(
        check: Check,
        fact: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, CheckStatus::Warn(Advice::new(why, fix)), fact)
    }

    /// Returns a failure, which must be fixed.
    pub fn fail(
        check: Check,
        fact: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, CheckStatus::Fail(Advice::new(why, fix)), fact)
    }

    /// Returns the finding of a skipped check. `fact` is the reason, and may be empty.
    pub fn skip(check: Check, fact: impl Into<String>) -> Self {
        Self::new(check, CheckStatus::Skipped, fact)
    }

    fn new(check: Check, status: CheckStatus, fact: impl Into<String>) -> Self {
        Self {
            check,
            status,
            fact: fact.into(),
        }
    }

    /// Returns true if the check failed.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self.status, CheckStatus::Fail(_))
    }
}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn checks_are_in_order_with_unique_names() {
        assert!(Check::ALL.is_sorted());
        let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Check::ALL.len());
    }
}
