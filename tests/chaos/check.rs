//! The checkers. Each checker checks one property of a complete history: it reads the timeline and returns the
//! violations.
//!
//! The checkers do not trust dlock. They use only events that the commands, the runner and the nemeses recorded.

mod cause;
mod deaths;
mod once;
mod overlap;
mod served;
mod takeover;
mod tokens;

use crate::history::Micros;
use crate::timeline::Timeline;

pub(crate) use cause::{cause, excused};
pub(crate) use deaths::deaths;
pub(crate) use once::{count as once_runs, min_hold, once};
pub(crate) use overlap::overlap;
pub(crate) use served::{bystanders, served};
pub(crate) use takeover::{latencies, takeover};
pub(crate) use tokens::{counter, tokens};

/// Tolerance in microseconds for events that are later than promised because other programs use the machine. The
/// checkers add the recorded stalls of the machine to this tolerance.
const ALLOWANCE: Micros = 1_500_000;

/// Maximum time in microseconds from the grant of a lease to the first event of its command, on a busy machine.
const START: Micros = 1_000_000;

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) at: Micros,
    /// Action in which the violation occurred. None if the violation does not concern a single action.
    pub(crate) action: Option<String>,
    pub(crate) what: String,
}

impl Violation {
    fn new<'a>(at: Micros, action: impl Into<Option<&'a str>>, what: String) -> Self {
        let action = action.into().map(str::to_owned);
        Self { at, action, what }
    }
}

pub(crate) type Property = (&'static str, fn(&Timeline) -> Vec<Violation>);

pub(crate) const PROPERTIES: [Property; 10] = [
    (
        "no two process trees of an action run at the same time",
        overlap,
    ),
    ("tokens increase in the order of the starts", tokens),
    ("a store that checks tokens loses no increment", counter),
    ("a lease is taken over in time", takeover),
    ("no run of dlock ends without a documented cause", cause),
    ("a process tree dies with its dlock", deaths),
    ("every contender is served after the faults", served),
    ("a lock stays held for its --min-hold", min_hold),
    ("no command with --once starts after a success", once),
    ("no session of another program is ended", bystanders),
];
