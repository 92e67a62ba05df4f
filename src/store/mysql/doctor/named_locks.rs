//! Checks that named locks do what the queue needs: one session holds the lock, every session can see
//! that, no other session can acquire it, and another session can acquire it after its release.

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
    /// The first session acquired the lock, but does not hold it at its next request.
    NotHeld,
    /// The second session acquired the lock too, or does not see that it is held.
    Shared,
    /// The second session could not acquire the lock after the first session had released it.
    NotReleased,
}

impl Trial {
    /// Tries a lock with a name that no other session uses. The server releases the lock when the
    /// sessions end.
    pub(super) fn run(one: &mut Session) -> Result<Self, QueryError> {
        // If there are no random numbers, the name may be the same as that of another doctor's lock.
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
                let fact = "a named lock excludes, stays, and is handed on";
                return Finding::ok(Check::NamedLocks, fact);
            }
            Self::Refused(message) => format!("named locks are refused: {message}"),
            Self::NotAcquired => "a named lock that nobody has is not given".to_owned(),
            Self::NotHeld => "a named lock does not stay with its session".to_owned(),
            Self::Shared => "a named lock is given to two sessions".to_owned(),
            Self::NotReleased => {
                "a named lock that was released is not given to the next".to_owned()
            }
        };
        Finding::warn(
            Check::NamedLocks,
            fact,
            "waiters look at the row in turns instead of being woken in order, and an expired lease is \
             taken over 5 seconds later instead of 0.9; exclusion does not rest on it",
            "go to the server directly, past any proxy, or let the server grant GET_LOCK",
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
