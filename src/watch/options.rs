//! The options of `status --watch`.

use std::time::Duration;

use crate::locks::selection::ActionSelection;
use crate::report::layout::Layout;
use crate::store::Holder;

/// Content and format of the output.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The actions to show.
    pub actions: ActionSelection,
    /// True if the output is JSON.
    pub json: bool,
    /// Time between two snapshots.
    pub interval: Duration,
    /// Identity of the user as an operator, without a reason.
    pub operator: Holder,
    /// Layout of the tables, and use of colours on the screen.
    pub layout: Layout,
}
