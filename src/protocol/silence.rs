//! Detects that something between dlock and the server ends connections that are silent for some time. Pure.
//!
//! Proxies, load balancers and firewalls drop connections on which no packet was sent for some time. If two connections
//! end after a similar silence, that silence is the limit. dlock then sends a packet before the limit is reached.

use std::time::Duration;

/// Shortest silence that counts. After a shorter silence, the end of a connection normally has another cause.
const SHORTEST: Duration = Duration::from_secs(1);

/// The silences after which connections of this process have ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SilenceLimit {
    /// The latest silence of at least [`SHORTEST`] after which a connection has ended. None if there is none.
    latest: Option<Duration>,
    /// The shortest silence after which two connections have ended. None if there is none.
    limit: Option<Duration>,
}

impl SilenceLimit {
    /// Records the end of a connection on which nothing was sent for the time `silence`. Returns the limit if it is
    /// new, or clearly shorter than before.
    pub fn ended_after(&mut self, silence: Duration) -> Option<Duration> {
        if silence < SHORTEST {
            return None;
        }
        let before = self.latest.replace(silence)?;
        let (shorter, longer) = (before.min(silence), before.max(silence));
        // The end is noticed a moment late, and later on a busy machine.
        let is_similar = longer <= shorter + shorter / 4;
        let is_new = self.limit.is_none_or(|limit| shorter < limit * 3 / 4);
        if !is_similar || !is_new {
            return None;
        }
        self.limit = Some(shorter);
        self.limit
    }

    /// Returns the silence after which connections end. None if it is not known.
    #[must_use]
    pub const fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Returns the maximum time to be silent, at least a second. None if no limit is known.
    #[must_use]
    pub fn longest_silence(&self) -> Option<Duration> {
        self.limit.map(|limit| (limit / 2).max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SilenceLimit;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn two_similar_silences_are_a_limit() {
        let mut silence = SilenceLimit::default();
        assert_eq!(silence.ended_after(ms(10_020)), None);
        assert_eq!(silence.longest_silence(), None);
        assert_eq!(silence.ended_after(ms(10_000)), Some(ms(10_000)));
        assert_eq!(silence.longest_silence(), Some(ms(5_000)));
        assert_eq!(silence.ended_after(ms(10_000)), None, "it is known");
        assert_eq!(silence.ended_after(ms(2_000)), None, "it occurred once");
        assert_eq!(silence.ended_after(ms(2_010)), Some(ms(2_000)));
        assert_eq!(silence.longest_silence(), Some(ms(1_000)));
    }

    #[test]
    fn different_or_short_silences_are_no_limit() {
        let mut silence = SilenceLimit::default();
        for milliseconds in [5_000, 9_000, 900, 950, 60_000, 5_000] {
            assert_eq!(silence.ended_after(ms(milliseconds)), None);
        }
        assert_eq!(silence.longest_silence(), None);
    }
}
