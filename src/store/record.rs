//! What is recorded of runs: how each ended, and which successes make another run needless.

use std::fmt;
use std::time::Duration;

use super::Holder;
use crate::lease::Token;
use crate::lease::action::Action;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The command ended with this status.
    Exited(u8),
    /// This signal killed the command.
    Killed(u8),
    /// The lease was lost or could not be kept, or its holder died: nobody knows how far it came.
    Lost,
    /// Somebody freed the row by hand.
    Broken,
    /// It was no run: a success was forgotten, so that it can be had again.
    Forgotten,
    /// It was no run: somebody ended the lease by hand.
    Released,
    /// It was no run: somebody closed the action for a time, and ended the lease if there was one.
    Closed,
    /// It was no run: somebody opened a closed action.
    Reopened,
}

impl Fate {
    /// Whether it is a success.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// What the table says by `word` and `number`; none if no dlock wrote that.
    #[must_use]
    pub fn read(word: &str, number: Option<u8>) -> Option<Self> {
        Some(match (word, number) {
            ("exited", Some(status)) => Self::Exited(status),
            ("killed", Some(signal)) => Self::Killed(signal),
            ("lost", _) => Self::Lost,
            ("broken", _) => Self::Broken,
            ("forgotten", _) => Self::Forgotten,
            ("released", _) => Self::Released,
            ("closed", _) => Self::Closed,
            ("reopened", _) => Self::Reopened,
            _ => return None,
        })
    }

    /// The word for it in the table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Killed(_) => "killed",
            Self::Lost => "lost",
            Self::Broken => "broken",
            Self::Forgotten => "forgotten",
            Self::Released => "released",
            Self::Closed => "closed",
            Self::Reopened => "reopened",
        }
    }

    /// The number that goes with it.
    #[must_use]
    pub const fn number(self) -> Option<u8> {
        match self {
            Self::Exited(number) | Self::Killed(number) => Some(number),
            _ => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited {status}"),
            Self::Killed(signal) => write!(f, "killed {signal}"),
            _ => f.write_str(self.word()),
        }
    }
}

/// A run that is over, as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// How it ended.
    pub fate: Fate,
    /// Time since the grant.
    pub took: Duration,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The lock's name.
    pub action: Action,
    /// The key of `--once`, empty without one; none if it was no `--once`.
    pub key: Option<String>,
    /// Token of the run.
    pub token: Token,
    /// Who it was.
    pub holder: Holder,
    /// When the lease was granted, by the server's clock, as RFC 3339.
    pub began_at: String,
    /// When the run was recorded.
    pub ended_at: String,
    /// From the one to the other.
    pub took: Duration,
    /// Since the end.
    pub ago: Duration,
    /// How it ended.
    pub fate: Fate,
}

/// A success that makes a run needless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Success {
    /// Token of the run.
    pub token: Token,
    /// `--holder` of the run.
    pub holder: String,
    /// When it was recorded, by the server's clock, as RFC 3339.
    pub at: String,
    /// Since then.
    pub ago: Duration,
}
