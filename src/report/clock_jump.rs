//! Detects jumps of the server's clock. Pure.
//!
//! No decision of the protocol depends on this module. dlock reports a jump to the operator for two reasons. After a
//! jump, ages in `status` are incorrect by the length of the jump. If the server's clock is the only evidence that a
//! lease has expired, a forward jump may permit a take-over too early.

use std::fmt;
use std::time::Duration;

use super::messages;
use crate::lease::instant::BootInstant;
use crate::store::{ServerTime, TimedResponse};

/// Maximum jump that is not reported. Smaller jumps may be normal adjustments of a clock.
const NOTEWORTHY: Duration = Duration::from_secs(1);

/// A jump of the server's clock relative to this machine's boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockJump {
    /// The clock jumped forward by this duration.
    Forward(Duration),
    /// The clock jumped back by this duration.
    Back(Duration),
}

impl fmt::Display for ClockJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (direction, by) = match self {
            Self::Forward(by) => ("forward", by),
            Self::Back(by) => ("back", by),
        };
        write!(f, "{direction} by {}", messages::duration(*by))
    }
}

/// The most recent readings of the server's clock and of the boot clock.
#[derive(Debug, Default)]
pub struct ClockComparison {
    last: Option<(ServerTime, BootInstant, BootInstant)>,
}

impl ClockComparison {
    /// Compares how far the server's clock and the boot clock have advanced since the previous response, and returns
    /// the jump. None if the clocks agree, or if a server time to compare is missing.
    pub fn observe(&mut self, response: &TimedResponse) -> Option<ClockJump> {
        let server = response.server_time?;
        let (before, sent, received) =
            self.last
                .replace((server, response.sent, response.received))?;
        let (ServerTime(before), ServerTime(server)) = (before, server);
        let least = response.sent.since(received);
        let most = response.received.since(sent);
        let advance = Duration::from_micros(server.saturating_sub(before));
        if server < before {
            let back = least + Duration::from_micros(before - server);
            (back > NOTEWORTHY).then_some(ClockJump::Back(back))
        } else if advance > most + NOTEWORTHY {
            Some(ClockJump::Forward(advance.saturating_sub(most)))
        } else if advance + NOTEWORTHY < least {
            Some(ClockJump::Back(least.saturating_sub(advance)))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ClockComparison, ClockJump};
    use crate::lease::instant::BootInstant;
    use crate::store::{Response, ServerTime, TimedResponse};

    fn response(own: u64, server: u64) -> TimedResponse {
        TimedResponse {
            sent: BootInstant::new(Duration::from_secs(own)),
            received: BootInstant::new(Duration::from_secs(own)),
            server_time: Some(ServerTime(server * 1_000_000)),
            could_grant: false,
            could_release: false,
            outcome: Ok(Response::Renewed(None)),
        }
    }

    #[test]
    fn clock_jump_is_reported_once() {
        let hour = Duration::from_hours(1);
        let mut clock = ClockComparison::default();
        assert_eq!(clock.observe(&response(10, 50_000)), None);
        assert_eq!(clock.observe(&response(15, 50_005)), None);
        assert_eq!(
            clock.observe(&response(20, 53_610)),
            Some(ClockJump::Forward(hour))
        );
        assert_eq!(clock.observe(&response(25, 53_615)), None);
        assert_eq!(
            clock.observe(&response(30, 50_020)),
            Some(ClockJump::Back(hour))
        );
        assert_eq!(clock.observe(&response(35, 50_025)), None);
    }
}
