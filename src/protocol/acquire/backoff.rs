//! The time of the next request: the pauses between two requests, and the maximum number of packets per second.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lease::OwnerId;
use crate::lease::instant::BootInstant;

/// First pause between two reads by the queue head or the first poller, before the jitter is applied. The pause is
/// short enough for a quick hand-over after a short command, and long enough to keep the load on the server low.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two reads by the queue head or the first poller, before the jitter is applied.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pause before the next request if the queue lock or the record is being handed over.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(25);

/// Maximum number of packets that one acquisition normally sends in any [`WINDOW`], regardless of the responses. A few
/// requests send more packets than this module counts. The limit prevents high load if the acquisition has a defect or
/// if the server misbehaves.
const MAX_PACKETS: usize = 10;
/// The time window of [`MAX_PACKETS`].
const WINDOW: Duration = Duration::from_secs(1);

/// The pauses and the rate limit of one acquisition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    /// The next request is not sent before this instant.
    pub(super) next_at: BootInstant,
    /// Number of consecutive attempts on a record that could be acquired.
    pub(super) consecutive_tries: u32,
    turn: u32,
    pause: Duration,
    /// Send times of the most recent packets, oldest first.
    sent_at: VecDeque<BootInstant>,
    /// True if this contender has been the head of the queue.
    has_been_head: bool,
}

impl Backoff {
    /// Creates the state of an acquisition that starts at `now`.
    pub(super) const fn new(now: BootInstant) -> Self {
        Self {
            next_at: now,
            consecutive_tries: 0,
            turn: 0,
            pause: FIRST_PAUSE,
            sent_at: VecDeque::new(),
            has_been_head: false,
        }
    }

    /// Returns the earliest instant at which `packets` packets may be sent.
    pub(super) fn earliest(&self, packets: usize) -> BootInstant {
        let too_many = (self.sent_at.len() + packets).checked_sub(MAX_PACKETS + 1);
        too_many
            .and_then(|last| self.sent_at.get(last))
            .map_or(self.next_at, |at| self.next_at.max(*at + WINDOW))
    }

    /// Records that `packets` packets were sent at `now`.
    pub(super) fn sent(&mut self, now: BootInstant, packets: usize) {
        self.turn = self.turn.wrapping_add(1);
        self.sent_at.extend(std::iter::repeat_n(now, packets));
        let old = self.sent_at.len().saturating_sub(MAX_PACKETS);
        self.sent_at.drain(..old);
    }

    /// Forgets the packets that were sent, after this contender has let another waiter pass. It lets each waiter pass only
    /// once, and all waiters behind it may be waiting for it.
    pub(super) fn has_let_pass(&mut self) {
        self.sent_at.clear();
    }

    /// Returns the next pause. Each pause is 1.5 times the previous pause, up to `longest`. A jitter that depends on
    /// `owner_id` then changes the pause by at most 25 %.
    pub(super) fn next_pause(&mut self, owner_id: OwnerId, longest: Duration) -> Duration {
        let pause = self.pause.min(longest);
        self.pause = (pause * 3 / 2).min(longest);
        pause * (192 + u32::from(owner_id.jitter(self.turn)) / 2) / 256
    }

    /// Forgets the packets that were sent, when this contender has become the head of the queue for the first time. All
    /// waiters behind it wait for it.
    pub(super) fn is_head(&mut self) {
        if !std::mem::replace(&mut self.has_been_head, true) {
            self.sent_at.clear();
        }
    }

    /// Removes values that only affect the length of pauses.
    pub(super) fn normalize_for_model(&mut self, now: BootInstant) {
        *self = Self {
            next_at: match self.next_at <= now {
                true => BootInstant::new(Duration::ZERO),
                false => self.next_at,
            },
            consecutive_tries: self.consecutive_tries,
            ..Self::new(now)
        };
    }

    /// Resets the pause to [`FIRST_PAUSE`] when the server responds again after a failure.
    pub(super) const fn recover(&mut self) {
        self.pause = FIRST_PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use crate::lease::instant::BootInstant;

    #[test]
    fn at_most_ten_packets_are_sent_in_any_second() {
        let mut now = BootInstant::new(Duration::from_secs(1000));
        let mut backoff = Backoff::new(now);
        let mut sent = Vec::new();
        for packets in [3, 2, 2, 1, 3, 2, 2, 1].repeat(20) {
            now = now.max(backoff.earliest(packets));
            backoff.sent(now, packets);
            sent.extend(std::iter::repeat_n(now, packets));
        }
        for (first, at) in sent.iter().enumerate() {
            let within = sent[first..]
                .iter()
                .filter(|other| other.since(*at) < super::WINDOW);
            assert!(within.count() <= super::MAX_PACKETS, "from {first} on");
        }
    }
}
