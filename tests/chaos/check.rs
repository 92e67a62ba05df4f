//! The checkers: claims about a whole history, each a function from the timeline to the violations of the claim.
//!
//! No checker trusts dlock: they use only what the commands, the kernel and the nemeses recorded.

mod cause;
mod counter;
mod deaths;
mod overlap;
mod served;
mod takeover;
mod tokens;

use crate::history::Micros;
use crate::timeline::Timeline;

pub(crate) use cause::{cause, excused};
pub(crate) use counter::counter;
pub(crate) use deaths::deaths;
pub(crate) use overlap::overlap;
pub(crate) use served::served;
pub(crate) use takeover::{count as takeovers, latencies, takeover};
pub(crate) use tokens::tokens;

/// Time in microseconds by which an event may be later than promised, because other programs use the machine. Recorded
/// stalls of the machine are added to it.
const ALLOWANCE: Micros = 1_500_000;

/// A violation of a claim.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Time of the violation.
    pub(crate) at: Micros,
    /// Action that the violation is about. None if it is about no single action.
    pub(crate) action: Option<String>,
    /// Description of the violation.
    pub(crate) what: String,
}

impl Violation {
    fn new(at: Micros, action: &str, what: String) -> Self {
        let action = Some(action.to_owned());
        Self { at, action, what }
    }
}

/// A claim in words, and its checker.
pub(crate) type Claim = (&'static str, fn(&Timeline) -> Vec<Violation>);

/// All claims.
pub(crate) const CLAIMS: [Claim; 7] = [
    ("no two trees of an action live at once", overlap),
    ("tokens grow in order of start", tokens),
    ("a store that checks tokens loses nothing", counter),
    ("a lease is taken over in time", takeover),
    ("no run of dlock ends without cause", cause),
    ("a tree dies with its dlock", deaths),
    ("every contender is served after the faults", served),
];
