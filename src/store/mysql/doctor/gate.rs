//! Whether named locks do what the line needs: one session has it, everybody sees that, another
//! cannot take it, and when it is released another can.

use super::session::{Session, Unanswered};
use crate::store::FailureKind;
use crate::store::finding::{Check, Finding};
use crate::sys::random;

/// What two sessions saw of one named lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    /// All as it should be.
    Works,
    /// The server refuses named locks.
    Refused(String),
    /// The first was not given it, though nobody had it.
    NotGiven,
    /// The first was told that it has it, and a question later that it has not.
    NotKept,
    /// The second was given it too, or is not told that it is taken.
    Shared,
    /// When the first had released it, the second did not get it.
    NotHandedOn,
}

impl Trial {
    /// Tries a lock of a name that nobody else has; it goes with the sessions.
    pub(super) fn run(one: &mut Session) -> Result<Self, Unanswered> {
        // A failure of the random numbers costs the distinction from another doctor's lock at most.
        let number = u64::from_le_bytes(random::bytes().unwrap_or_default());
        match trial(one, &format!("'dlock-doctor:{number}'")) {
            Err(Unanswered::Refused(failure)) if failure.kind == FailureKind::NoGate => {
                Ok(Self::Refused(failure.message))
            }
            outcome => outcome,
        }
    }

    /// Judges it.
    pub(super) fn judge(&self) -> Finding {
        let fact = match self {
            Self::Works => {
                let fact = "a named lock excludes, stays, and is handed on";
                return Finding::ok(Check::Gate, fact);
            }
            Self::Refused(message) => format!("named locks are refused: {message}"),
            Self::NotGiven => "a named lock that nobody has is not given".to_owned(),
            Self::NotKept => "a named lock does not stay with its session".to_owned(),
            Self::Shared => "a named lock is given to two sessions".to_owned(),
            Self::NotHandedOn => {
                "a named lock that was released is not given to the next".to_owned()
            }
        };
        Finding::note(
            Check::Gate,
            fact,
            "waiters look at the row in turns instead of being woken in order, and a lapsed lease is \
             taken over 5 seconds later instead of 0.9; exclusion does not rest on it",
            "go to the server directly, past any proxy, or let the server grant GET_LOCK",
        )
    }
}

fn trial(one: &mut Session, name: &str) -> Result<Trial, Unanswered> {
    let take = format!("SELECT GET_LOCK({name},0);");
    let release = format!("DO RELEASE_LOCK({name});");
    let ours = format!("SELECT IS_USED_LOCK({name})=CONNECTION_ID();");
    let others = format!("SELECT IS_USED_LOCK({name})<>CONNECTION_ID();");
    let is = |answer: Option<String>, wanted| answer.as_deref() == Some(wanted);
    let mut other = one.second().map_err(Unanswered::Refused)?;
    if !is(one.value(&take)?, "1") {
        return Ok(Trial::NotGiven);
    }
    if !is(one.value(&ours)?, "1") {
        return Ok(Trial::NotKept);
    }
    if !is(other.value(&take)?, "0") || !is(other.value(&others)?, "1") {
        return Ok(Trial::Shared);
    }
    one.ask(&release)?;
    if !is(other.value(&take)?, "1") || !is(other.value(&ours)?, "1") {
        return Ok(Trial::NotHandedOn);
    }
    other.ask(&release)?;
    Ok(Trial::Works)
}

#[cfg(test)]
mod tests {
    use super::Trial;
    use crate::store::finding::Verdict;

    #[test]
    fn every_way_to_fail_is_told_from_the_others() {
        assert_eq!(Trial::Works.judge().verdict, Verdict::Ok);
        let mut facts = [
            Trial::Refused("no".to_owned()),
            Trial::NotGiven,
            Trial::NotKept,
            Trial::Shared,
            Trial::NotHandedOn,
        ]
        .map(|trial| {
            let finding = trial.judge();
            assert!(matches!(finding.verdict, Verdict::Note(_)), "{finding:?}");
            finding.fact
        })
        .to_vec();
        facts.sort();
        facts.dedup();
        assert_eq!(facts.len(), 5, "{facts:?}");
    }
}
