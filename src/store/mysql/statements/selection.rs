//! The actions that a request reads.

use super::fragments::hex;
use crate::lease::action::Action;

/// Selection of the actions to read.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// The listed actions.
    Named(&'a [Action]),
    /// Actions that are held, expired or paused, or that have waiters.
    Active,
    /// All actions.
    All,
}

impl Selection<'_> {
    /// Returns the condition that the selection contains the action in `column`. The condition is TRUE for `Active` and
    /// `All`, which contain no names.
    pub(super) fn includes(self, column: &str) -> String {
        match self {
            Self::Named([]) => "FALSE".to_owned(),
            Self::Named(actions) => {
                let names: Vec<String> = actions.iter().map(|name| hex(name.as_str())).collect();
                format!("{column} IN ({})", names.join(","))
            }
            Self::Active | Self::All => "TRUE".to_owned(),
        }
    }
}
