//! How long to pause between two questions, and how many may be asked in a second.

use std::collections::VecDeque;
use std::time::Duration;

use super::Acquire;
use crate::lease::instant::BootInstant;

/// First and longest pause between two looks of the one that is next: fast enough that a short command
/// hands over soon, slow enough to be nothing to the server.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pause before another look at a gate or a row that is being handed over.
pub(super) const MOMENT: Duration = Duration::from_millis(25);

/// Most packets of one process in any [`WINDOW`], whatever the server answers: a mistake in here, or a
/// server that misbehaves, must not become a load.
const MOST_PACKETS: usize = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// The pauses of one acquisition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    turn: u32,
    pause: Duration,
    /// When the last packets were sent, oldest first.
    sent: VecDeque<BootInstant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            turn: 0,
            pause: FIRST_PAUSE,
            sent: VecDeque::new(),
        }
    }
}

impl Pace {
    /// When `packets` may be sent.
    pub(super) fn earliest(&self, packets: usize) -> BootInstant {
        let too_many = (self.sent.len() + packets).checked_sub(MOST_PACKETS + 1);
        too_many
            .and_then(|last| self.sent.get(last))
            .map_or(BootInstant::new(Duration::ZERO), |at| *at + WINDOW)
    }

    /// Takes note of `packets` that are sent at `now`.
    pub(super) fn sent(&mut self, now: BootInstant, packets: usize) {
        self.turn = self.turn.wrapping_add(1);
        self.sent.extend(std::iter::repeat_n(now, packets));
        let old = self.sent.len().saturating_sub(MOST_PACKETS);
        self.sent.drain(..old);
    }

    /// The server answers again: pauses begin short.
    pub(super) const fn recover(&mut self) {
        self.pause = FIRST_PAUSE;
    }
}

impl Acquire {
    /// Pauses, but not past the moment when the row may be taken.
    pub(super) fn pause_until(
        &mut self,
        now: BootInstant,
        takeable: BootInstant,
        longest: Duration,
    ) {
        let pause = self.next_pause(longest);
        self.next_at = (now + pause).min(takeable.max(now + MOMENT));
    }

    /// The next pause: half as long again each time up to `longest`, spread by a quarter.
    pub(super) fn next_pause(&mut self, longest: Duration) -> Duration {
        let pause = self.pace.pause.min(longest);
        self.pace.pause = (pause * 3 / 2).min(longest);
        pause * (192 + u32::from(self.claim.jitter(self.pace.turn)) / 2) / 256
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;
    use crate::lease::instant::BootInstant;

    #[test]
    fn no_second_sees_more_than_ten_packets_of_one_process() {
        let mut pace = Pace::default();
        let mut now = BootInstant::new(Duration::from_secs(1000));
        let mut sent = Vec::new();
        for packets in [3, 2, 2, 1, 3, 2, 2, 1].repeat(20) {
            now = now.max(pace.earliest(packets));
            pace.sent(now, packets);
            sent.extend(std::iter::repeat_n(now, packets));
        }
        for (first, at) in sent.iter().enumerate() {
            let within = sent[first..]
                .iter()
                .filter(|other| other.since(*at) < super::WINDOW);
            assert!(within.count() <= super::MOST_PACKETS, "from {first} on");
        }
    }
}
