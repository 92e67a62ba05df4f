//! Checks that named locks work as the queue requires: one session keeps the lock, other sessions can
//! read its owner but cannot acquire it, and another session can acquire the lock after its release.

use super::session::{QueryError, Session};
use crate::store::FailureKind;
use crate::store::check::{Check, Finding};
use crate::sys::random;

/// Result of the trial of one named lock with two sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    /// The named lock works.
    Works,
    /// The server refuses named locks.
    Refused(String),
    /// The first session could not acquire the lock, although it was free.
    NotAcquired,
    /// The first session acquired the lock, but no longer held it at its next request.
    NotHeld,
    /// The second session also acquired the lock, or could not read that the first session held it.
    Shared,
    /// The second session could not acquire the lock after the first session had released it.
    NotReleased,
}

impl Trial {
    /// Tries a lock with a name that no other session uses. The server releases the lock when the
    /// sessions end.
    pub(super) fn run(one: &mut Session) -> Result<Self, QueryError> {
        // If random numbers are not available, another `dlock doctor` may use the same lock name.
        let number = u64::from_le_bytes(random::bytes().unwrap_or_default());
        match trial(one, &format!("'dlock-doctor:{number}'")) {
            Err(QueryError::Refused(failure)) if failure.kind == FailureKind::NoQueueLock => {
                Ok(Self::Refused(failure.message))
            }
            outcome => outcome,
        }
    }

    /// Judges the result.
    pub(super) fn judge(&self) -> Finding {
        let fact = match self {
            Self::Works => {
                let fact =
                    "a named lock excludes other sessions, lasts, and passes to the next session";
                return Finding::ok(Check::NamedLocks, fact);
            }
            Self::Refused(message) => format!("the server refuses named locks: {message}"),
            Self::NotAcquired => "a free named lock cannot be acquired".to_owned(),
            Self::NotHeld => "a named lock does not stay with its session".to_owned(),
            Self::Shared => "two sessions can acquire the same named lock".to_owned(),
            Self::NotReleased => "a named lock cannot be acquired after its release".to_owned(),
        };
        Finding::warn(
            Check::NamedLocks,
            fact,
            "waiters poll instead of being woken in order, and an expired lease is taken over after 5 \
             seconds instead of 0.9; mutual exclusion does not depend on named locks",
            "connect to the server directly, without a proxy, or allow GET_LOCK on the server",
        )
    }
}

fn trial(one: &mut Session, name: &str) -> Result<Trial, QueryError> {
    let acquire = format!("SELECT GET_LOCK({name},0);");
    let release = format!("DO RELEASE_LOCK({name});");
    let held_by_this_session = format!("SELECT IS_USED_LOCK({name})=CONNECTION_ID();");
    let held_by_other_session = format!("SELECT IS_USED_LOCK({name})<>CONNECTION_ID();");
    let is = |response: Option<String>, wanted| response.as_deref() == Some(wanted);
    let mut other = one.second().map_err(QueryError::Refused)?;
    if !is(one.value(&acquire)?, "1") {
        return Ok(Trial::NotAcquired);
    }
    if !is(one.value(&held_by_this_session)?, "1") {
        return Ok(Trial::NotHeld);
    }
    if !is(other.value(&acquire)?, "0") || !is(other.value(&held_by_other_session)?, "1") {
        return Ok(Trial::Shared);
    }
    one.query(&release)?;
    if !is(other.value(&acquire)?, "1") || !is(other.value(&held_by_this_session)?, "1") {
        return Ok(Trial::NotReleased);
    }
    other.query(&release)?;
    Ok(Trial::Works)
}

#[cfg(test)]
mod tests {
    use super::Trial;
    use crate::store::check::CheckStatus;

    #[test]
    fn each_failure_has_its_own_fact() {
        assert_eq!(Trial::Works.judge().status, CheckStatus::Ok);
        let mut facts = [
            Trial::Refused("no".to_owned()),
            Trial::NotAcquired,
            Trial::NotHeld,
            Trial::Shared,
            Trial::NotReleased,
        ]
        .map(|trial| {
            let finding = trial.judge();
            assert!(
                matches!(finding.status, CheckStatus::Warn(_)),
                "{finding:?}"
            );
            finding.fact
        })
        .to_vec();
        facts.sort();
        facts.dedup();
        assert_eq!(facts.len(), 5, "{facts:?}");
    }
}
