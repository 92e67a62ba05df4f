//! The checkers: claims about a whole history, each a function from the story to what breaks the claim.
//!
//! None of them believes dlock: they go by what the commands, their kernel and the faults' own records say.

mod cause;
mod counter;
mod deaths;
mod overlap;
mod served;
mod takeover;
mod tokens;

use crate::history::Micros;
use crate::story::Story;

pub(crate) use cause::{cause, excused};
pub(crate) use counter::counter;
pub(crate) use deaths::deaths;
pub(crate) use overlap::overlap;
pub(crate) use served::served;
pub(crate) use takeover::{count as takeovers, latencies, takeover};
pub(crate) use tokens::tokens;

/// How much later than promised something may be seen on a machine on which much else runs. What the machine is known
/// to have stood still comes on top.
const ALLOWANCE: Micros = 1_500_000;

/// Something that breaks a claim.
#[derive(Debug)]
pub(crate) struct Violation {
    /// When.
    pub(crate) at: Micros,
    /// With which action, if with one.
    pub(crate) action: Option<String>,
    /// What is wrong.
    pub(crate) what: String,
}

impl Violation {
    fn new(at: Micros, action: &str, what: String) -> Self {
        let action = Some(action.to_owned());
        Self { at, action, what }
    }
}

/// A claim as people say it, and its checker.
pub(crate) type Claim = (&'static str, fn(&Story) -> Vec<Violation>);

/// All of them.
pub(crate) const CLAIMS: [Claim; 7] = [
    ("no two trees of an action live at once", overlap),
    ("tokens grow in order of start", tokens),
    ("a store that checks tokens loses nothing", counter),
    ("a lease is taken over in time", takeover),
    ("nobody is killed without cause", cause),
    ("a tree dies with its dlock", deaths),
    ("everybody is served when the faults are over", served),
];
