//! Noticing that the server's clock was set. Pure.
//!
//! Nothing is decided here. But an operator wants to know: ages in `status` are off by as much, and
//! where nothing but the server's clock tells that a lease lapsed, a step forward may tell it early.

use std::fmt;
use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::report::words;
use crate::store::{Reply, ServerTime};

/// Below this a difference is the time that packets take.
const NOTEWORTHY: Duration = Duration::from_secs(1);

/// A jump of the server's clock against ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It went forward by this.
    Forward(Duration),
    /// It went back by this.
    Back(Duration),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, by) = match self {
            Self::Forward(by) => ("forward", by),
            Self::Back(by) => ("back", by),
        };
        write!(f, "{way} by {}", words::duration(*by))
    }
}

/// The last pair of clock readings.
#[derive(Debug, Default)]
pub struct ClockStep {
    last: Option<(ServerTime, BootInstant, BootInstant)>,
}

impl ClockStep {
    /// Compares the server's advance since the last reply with ours.
    pub fn observe(&mut self, reply: &Reply) -> Option<Step> {
        let server = reply.server_time?;
        let (before, sent, received) = self.last.replace((server, reply.sent, reply.received))?;
        let (ServerTime(before), ServerTime(server)) = (before, server);
        let least = reply.sent.since(received);
        let most = reply.received.since(sent);
        let advance = Duration::from_micros(server.saturating_sub(before));
        if server < before {
            let back = least + Duration::from_micros(before - server);
            (back > NOTEWORTHY).then_some(Step::Back(back))
        } else if advance > most + NOTEWORTHY {
            Some(Step::Forward(advance.saturating_sub(most)))
        } else if advance + NOTEWORTHY < least {
            Some(Step::Back(least.saturating_sub(advance)))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ClockStep, Step};
    use crate::lease::instant::BootInstant;
    use crate::store::{Answer, Reply, ServerTime};

    fn reply(own: u64, server: u64) -> Reply {
        Reply {
            sent: BootInstant::new(Duration::from_secs(own)),
            received: BootInstant::new(Duration::from_secs(own)),
            server_time: Some(ServerTime(server * 1_000_000)),
            could_grant: false,
            outcome: Ok(Answer::Renewed),
        }
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_once() {
        let hour = Duration::from_hours(1);
        let mut clock = ClockStep::default();
        assert_eq!(clock.observe(&reply(10, 50_000)), None);
        assert_eq!(clock.observe(&reply(15, 50_005)), None);
        assert_eq!(clock.observe(&reply(20, 53_610)), Some(Step::Forward(hour)));
        assert_eq!(clock.observe(&reply(25, 53_615)), None);
        assert_eq!(clock.observe(&reply(30, 50_020)), Some(Step::Back(hour)));
        assert_eq!(clock.observe(&reply(35, 50_025)), None);
    }
}
