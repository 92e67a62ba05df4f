//! Decides whether the data on the screen is stale, and formats the message that says why and how old the data is.
//!
//! The decision uses only the time of the latest snapshot and the current time, so it does not depend on a response or
//! on an error: a connection that is silent is detected as early as a connection that is refused.

use std::time::Duration;

use super::list::time_of_day;
use super::state::ScreenState;
use crate::report::escape::printable;
use crate::report::line::{StyledLine, folded, width};
use crate::report::messages::{age, duration};
use crate::report::style::Style;
use crate::store::LockRecord;

/// Minimum age of stale data. A shorter limit would mark data as stale after every short delay in the network.
const MIN_STALE_AGE: Duration = Duration::from_secs(2);

/// Maximum number of lines for the message.
const MAX_LINES: usize = 3;

impl ScreenState {
    /// Returns true if the data is older than two intervals (at least `MIN_STALE_AGE`), or if a request has failed
    /// since the latest snapshot.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.failure.is_some() || self.now.since(self.latest.sent) > self.max_age()
    }

    /// Returns lines with the reason, the age and the time of the data if the data is stale. Otherwise returns no
    /// lines.
    pub(super) fn stale_lines(&self) -> Vec<StyledLine> {
        if !self.is_stale() {
            return Vec::new();
        }
        let silence = self.now.since(self.latest.received);
        let latency = self.latest.received.since(self.latest.sent);
        let what = match self.failure.is_none() && silence <= self.max_age() {
            true => format!("the latest response took {}", age(latency)),
            false => format!("no response for {}", age(silence)),
        };
        let columns = self.size.columns;
        let text = format!("stale: {what}; showing the state of {}", self.data_time());
        let why = printable(self.failure.as_deref().unwrap_or_default());
        let one_line = format!("{text} ({why})");
        let mut lines = match why.is_empty() {
            true => folded(&text, columns),
            false if width(&one_line) <= columns => vec![one_line],
            // The reason may be long, so it is at the end, where it can be cut.
            false => [folded(&text, columns), folded(&why, columns)].concat(),
        };
        lines.truncate(MAX_LINES);
        let bad = |text: &String| StyledLine::of(text, Style::Bad);
        lines.iter().map(bad).collect()
    }

    /// Returns the time of the data on the server's clock, such as `21:04:05 UTC`.
    pub(super) fn data_time(&self) -> String {
        format!("{} UTC", time_of_day(self.latest.server_time()))
    }

    /// Returns `line` without the styles that describe a current state if the data is stale. Otherwise returns `line`
    /// unchanged.
    pub(super) fn faded(&self, mut line: StyledLine) -> StyledLine {
        if self.is_stale() {
            for cell in &mut line.cells {
                if cell.paint != Style::Strong {
                    cell.paint = Style::Faint;
                }
            }
        }
        line
    }

    /// Replaces the remaining time of the lease in the facts about `record` if the data is stale, because the time would
    /// seem to be current.
    pub(super) fn without_remaining_time(
        &self,
        record: &LockRecord,
        mut facts: Vec<(&'static str, String)>,
    ) -> Vec<(&'static str, String)> {
        if self.is_stale()
            && let Some((_, text)) = facts.iter_mut().find(|(name, _)| *name == "lease")
        {
            *text = format!(
                "{}, remaining time unknown",
                duration(record.main_lease().ttl)
            );
        }
        facts
    }

    fn max_age(&self) -> Duration {
        (self.title.interval * 2).max(MIN_STALE_AGE)
    }
}
