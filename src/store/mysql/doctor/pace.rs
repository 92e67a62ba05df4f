//! How far apart the clocks are, how long a question takes, and how many more may wait.

use std::time::Duration;

use super::facts::Facts;
use super::session::{Session, Unanswered};
use crate::lease::timing::Timing;
use crate::store::finding::{Check, Finding};
use crate::sys::clock;

/// The ttl that `exec` has unless told otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// Questions of which the median is taken.
const TRIPS: usize = 3;

/// A difference of clocks that nobody notices in a log.
const CLOSE: Duration = Duration::from_secs(1);

/// Fewer free connections than this are soon gone.
const FEW: u64 = 20;

/// The server's clock and ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    server: Duration,
    /// Halfway between question and answer.
    ours: Duration,
    /// Between question and answer.
    trip: Duration,
}

impl Clocks {
    /// Asks the server for its time; none if it has no answer.
    pub(super) fn ask(session: &mut Session) -> Result<Option<Self>, Unanswered> {
        let before = clock::wall();
        let micros =
            session.value("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6));")?;
        let trip = clock::wall().saturating_sub(before);
        let micros = micros.and_then(|micros| micros.parse().ok());
        Ok(micros.map(|micros| Self {
            server: Duration::from_micros(micros),
            ours: before + trip / 2,
            trip,
        }))
    }

    /// Judges the difference.
    pub(super) fn judge(self) -> Finding {
        let ahead = self.server.saturating_sub(self.ours);
        let behind = self.ours.saturating_sub(self.server);
        let (difference, word) = match ahead > behind {
            true => (ahead, "ahead of"),
            false => (behind, "behind"),
        };
        if difference <= CLOSE + self.trip {
            return Finding::ok(Check::Clock, "the server's and this machine's agree");
        }
        Finding::note(
            Check::Clock,
            format!(
                "the server's is {} {word} this machine's",
                shown(difference)
            ),
            "no clock of a client matters to a lease, but status and logs of the machines show \
             different times",
            "let the same NTP servers set both",
        )
    }
}

/// How long each of a few questions took.
pub(super) fn trips(session: &mut Session) -> Result<Vec<Duration>, Unanswered> {
    let mut trips = Vec::new();
    for _ in 0..TRIPS {
        let sent = clock::now();
        session.ask("SELECT 1 AS round_trip;")?;
        trips.push(clock::now().since(sent));
    }
    Ok(trips)
}

/// Judges the median against the time that one renewal may take with the default ttl.
pub(super) fn judge_trips(mut trips: Vec<Duration>) -> Finding {
    trips.sort_unstable();
    let Some(median) = trips.get(trips.len() / 2).copied() else {
        return Finding::unchecked(Check::RoundTrip, "");
    };
    let Ok(timing) = Timing::new(DEFAULT_TTL, None) else {
        return Finding::unchecked(Check::RoundTrip, "");
    };
    let fact = format!("{} in the median of {}", shown(median), trips.len());
    let why = format!(
        "with the default ttl a renewal may take {} before it is given up and its connection with it",
        shown(timing.attempt)
    );
    let remedy = "run dlock nearer to the server, find out what slows it down, or raise --ttl";
    // A few are made to connect, and one that is slower than others must still be in time.
    match median {
        slow if slow > timing.attempt / 4 => Finding::mend(Check::RoundTrip, fact, why, remedy),
        long if long > timing.attempt / 20 => Finding::note(Check::RoundTrip, fact, why, remedy),
        _ => Finding::ok(Check::RoundTrip, fact),
    }
}

/// Judges how many more sessions there may be.
pub(super) fn connections(facts: &Facts) -> Finding {
    let open = facts.global.number("threads_connected");
    let Some((open, most)) = open.zip(facts.global.number("max_connections")) else {
        return Finding::unchecked(Check::Connections, "the server does not tell");
    };
    let mut free = most.saturating_sub(open);
    let mut fact = format!("{open} of {most} in use");
    if facts.sessions_allowed > 0 {
        free = free.min(facts.sessions_allowed.saturating_sub(facts.sessions));
        fact = format!(
            "{fact}, {} of the {} of this account",
            facts.sessions, facts.sessions_allowed
        );
    }
    let why = "each holder and each waiter has one for as long as it holds or waits; without a free \
               one dlock keeps trying, and nobody else gets in either";
    let remedy =
        "raise max_connections, or the limit of the account, to the most that may ever wait";
    match free {
        0..=1 => Finding::mend(Check::Connections, fact, why, remedy),
        2..FEW => Finding::note(Check::Connections, fact, why, remedy),
        _ => Finding::ok(Check::Connections, fact),
    }
}

/// Milliseconds below a second, seconds above.
fn shown(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    match duration {
        short if short < Duration::from_secs(1) => format!("{millis:.2}ms"),
        _ => humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::facts::Facts;
    use super::{Clocks, connections, judge_trips};
    use crate::store::finding::Verdict;

    fn is_note(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Note(_))
    }

    #[test]
    fn clocks_agree_when_the_trip_explains_the_difference() {
        let judged = |server, ours, trip| {
            Clocks {
                server: Duration::from_millis(server),
                ours: Duration::from_millis(ours),
                trip: Duration::from_millis(trip),
            }
            .judge()
        };
        assert_eq!(judged(9_000, 9_900, 1).verdict, Verdict::Ok);
        assert_eq!(judged(9_000, 11_900, 2_000).verdict, Verdict::Ok);
        let ahead = judged(99_000, 9_000, 1);
        assert!(
            is_note(&ahead.verdict) && ahead.fact.contains("1m 30s ahead of"),
            "{ahead:?}"
        );
        let behind = judged(9_000, 12_000, 1);
        assert!(
            is_note(&behind.verdict) && behind.fact.contains("3s behind"),
            "{behind:?}"
        );
    }

    #[test]
    fn one_slow_question_is_no_slow_server() {
        let judged = |trips: [u64; 5]| judge_trips(trips.map(Duration::from_millis).to_vec());
        assert_eq!(judged([1, 1, 900, 1, 900]).verdict, Verdict::Ok);
        assert!(is_note(&judged([1, 200, 200, 1, 200]).verdict));
        assert!(judged([600, 700, 800, 1, 1]).is_mend());
    }

    #[test]
    fn the_smaller_limit_decides_how_many_more_may_wait() {
        let facts = |open: &str, sessions, sessions_allowed| Facts {
            sessions,
            sessions_allowed,
            ..Facts::with(&[("Threads_connected", open), ("max_connections", "151")])
        };
        assert_eq!(connections(&facts("1", 1, 0)).verdict, Verdict::Ok);
        assert!(is_note(&connections(&facts("140", 1, 0)).verdict));
        assert!(connections(&facts("150", 1, 0)).is_mend());
        assert!(is_note(&connections(&facts("1", 1, 5)).verdict));
        assert!(connections(&facts("1", 5, 5)).is_mend());
        assert_eq!(connections(&Facts::default()).verdict, Verdict::Unchecked);
    }
}
