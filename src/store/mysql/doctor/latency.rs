//! Checks the difference between the clocks, the time of a round trip, and the number of free
//! connections.

use std::time::Duration;

use super::session::{QueryError, Session};
use super::variables::ServerFacts;
use crate::lease::timing::Timing;
use crate::store::check::{Check, Finding};
use crate::sys::clock;

/// Default ttl of `exec`.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// Number of requests from which the median is calculated.
const ROUND_TRIPS: usize = 3;

/// Largest difference between the clocks that does not affect a user who compares logs.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Number of free connections below which the server is likely to run out of connections soon.
const FEW_CONNECTIONS: u64 = 20;

/// The server's clock and the clock of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    server: Duration,
    /// Local time at the midpoint between request and response.
    local: Duration,
    /// Time between request and response.
    round_trip: Duration,
}

impl Clocks {
    /// Requests the server's time. Returns None if the response does not contain a number.
    pub(super) fn query(session: &mut Session) -> Result<Option<Self>, QueryError> {
        let before = clock::wall();
        let micros =
            session.value("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6));")?;
        let round_trip = clock::wall().saturating_sub(before);
        let micros = micros.and_then(|micros| micros.parse().ok());
        Ok(micros.map(|micros| Self {
            server: Duration::from_micros(micros),
            local: before + round_trip / 2,
            round_trip,
        }))
    }

    /// Judges the difference between the clocks.
    pub(super) fn judge(self) -> Finding {
        let ahead = self.server.saturating_sub(self.local);
        let behind = self.local.saturating_sub(self.server);
        let (difference, word) = match ahead > behind {
            true => (ahead, "ahead of"),
            false => (behind, "behind"),
        };
        if difference <= MAX_CLOCK_DIFFERENCE + self.round_trip {
            return Finding::ok(
                Check::Clock,
                "the clocks of the server and of this machine agree",
            );
        }
        Finding::warn(
            Check::Clock,
            format!(
                "the server's clock is {} {word} this machine's clock",
                formatted(difference)
            ),
            "leases do not depend on client clocks, but the times in dlock status differ from the times in \
             the logs of this machine",
            "synchronize both clocks with NTP",
        )
    }
}

/// Returns the round-trip time of each of [`ROUND_TRIPS`] requests.
pub(super) fn round_trips(session: &mut Session) -> Result<Vec<Duration>, QueryError> {
    let mut round_trips = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let sent = clock::now();
        session.query("SELECT 1 AS round_trip;")?;
        round_trips.push(clock::now().since(sent));
    }
    Ok(round_trips)
}

/// Compares the median round-trip time with the time limit of one renewal with the default ttl.
pub(super) fn judge_round_trips(mut round_trips: Vec<Duration>) -> Finding {
    round_trips.sort_unstable();
    let Some(median) = round_trips.get(round_trips.len() / 2).copied() else {
        return Finding::skip(Check::RoundTrip, "");
    };
    let Ok(timing) = Timing::new(DEFAULT_TTL, None) else {
        return Finding::skip(Check::RoundTrip, "");
    };
    let fact = format!(
        "median of {} requests: {}",
        round_trips.len(),
        formatted(median)
    );
    let why = format!(
        "with the default ttl, dlock aborts a renewal and closes the connection after {}",
        formatted(timing.request_timeout)
    );
    let fix =
        "run dlock closer to the server, find out what slows down the requests, or increase --ttl";
    // A reconnect takes several round trips, and an unusually slow round trip must also finish in time.
    match median {
        slow if slow > timing.request_timeout / 4 => {
            Finding::fail(Check::RoundTrip, fact, why, fix)
        }
        long if long > timing.request_timeout / 20 => {
            Finding::warn(Check::RoundTrip, fact, why, fix)
        }
        _ => Finding::ok(Check::RoundTrip, fact),
    }
}

/// Judges the number of further sessions that the server accepts.
pub(super) fn connections(facts: &ServerFacts) -> Finding {
    let open = facts.global.number("threads_connected");
    let Some((open, most)) = open.zip(facts.global.number("max_connections")) else {
        return Finding::skip(
            Check::Connections,
            "the server does not report its number of connections",
        );
    };
    let mut free = most.saturating_sub(open);
    let mut fact = format!("{open} of {most} connections in use");
    if facts.sessions_allowed > 0 {
        free = free.min(facts.sessions_allowed.saturating_sub(facts.sessions));
        fact = format!(
            "{fact}, and {} of {} for this account",
            facts.sessions, facts.sessions_allowed
        );
    }
    let why = "each holder and each waiter needs a connection; without a free connection, dlock can only \
               retry, and other clients cannot connect either";
    let fix = "increase max_connections, or the connection limit of the account, to the largest expected \
               number of holders and waiters";
    match free {
        0..=1 => Finding::fail(Check::Connections, fact, why, fix),
        2..FEW_CONNECTIONS => Finding::warn(Check::Connections, fact, why, fix),
        _ => small_pool(facts, most).unwrap_or_else(|| Finding::ok(Check::Connections, fact)),
    }
}

/// Returns the finding for a server that may have more connections than threads. None if each connection can have a thread.
fn small_pool(facts: &ServerFacts, connections: u64) -> Option<Finding> {
    let is_pool = facts.global.get("thread_handling") == Some("pool-of-threads");
    let threads = facts.global.number("thread_pool_max_threads")?;
    (is_pool && threads < connections).then(|| {
        Finding::warn(
            Check::Connections,
            format!("a pool of at most {threads} threads for {connections} connections"),
            "each waiter keeps a thread of the server for up to a second at a time; many waiters delay all other clients, \
             and holders may lose their leases",
            "set thread_pool_max_threads to at least max_connections, or thread_handling=one-thread-per-connection",
        )
    })
}

/// Formats a duration below one second in milliseconds, and a longer duration in whole seconds.
fn formatted(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    match duration {
        short if short < Duration::from_secs(1) => format!("{millis:.2}ms"),
        _ => humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::variables::ServerFacts;
    use super::{Clocks, connections, judge_round_trips};
    use crate::store::check::CheckStatus;

    fn is_warning(status: &CheckStatus) -> bool {
        matches!(status, CheckStatus::Warn(_))
    }

    #[test]
    fn clocks_agree_if_the_round_trip_explains_the_difference() {
        let finding_for = |server, local, round_trip| {
            Clocks {
                server: Duration::from_millis(server),
                local: Duration::from_millis(local),
                round_trip: Duration::from_millis(round_trip),
            }
            .judge()
        };
        assert_eq!(finding_for(9_000, 9_900, 1).status, CheckStatus::Ok);
        assert_eq!(finding_for(9_000, 11_900, 2_000).status, CheckStatus::Ok);
        let ahead = finding_for(99_000, 9_000, 1);
        assert!(
            is_warning(&ahead.status) && ahead.fact.contains("1m 30s ahead of"),
            "{ahead:?}"
        );
        let behind = finding_for(9_000, 12_000, 1);
        assert!(
            is_warning(&behind.status) && behind.fact.contains("3s behind"),
            "{behind:?}"
        );
    }

    #[test]
    fn one_slow_request_is_tolerated() {
        let finding_for = |round_trips: [u64; 5]| {
            judge_round_trips(round_trips.map(Duration::from_millis).to_vec())
        };
        assert_eq!(finding_for([1, 1, 900, 1, 900]).status, CheckStatus::Ok);
        assert!(is_warning(&finding_for([1, 200, 200, 1, 200]).status));
        assert!(finding_for([600, 700, 800, 1, 1]).is_failure());
    }

    #[test]
    fn the_smaller_connection_limit_applies() {
        let facts = |open: &str, sessions, sessions_allowed| ServerFacts {
            sessions,
            sessions_allowed,
            ..ServerFacts::with(&[("Threads_connected", open), ("max_connections", "151")])
        };
        assert_eq!(connections(&facts("1", 1, 0)).status, CheckStatus::Ok);
        assert!(is_warning(&connections(&facts("140", 1, 0)).status));
        assert!(connections(&facts("150", 1, 0)).is_failure());
        assert!(is_warning(&connections(&facts("1", 1, 5)).status));
        assert!(connections(&facts("1", 5, 5)).is_failure());
        let pool = |handling, threads| {
            connections(&ServerFacts::with(&[
                ("Threads_connected", "1"),
                ("max_connections", "151"),
                ("thread_handling", handling),
                ("thread_pool_max_threads", threads),
            ]))
        };
        assert!(is_warning(&pool("pool-of-threads", "150").status));
        assert_eq!(pool("pool-of-threads", "65536").status, CheckStatus::Ok);
        let one_each = pool("one-thread-per-connection", "20");
        assert_eq!(one_each.status, CheckStatus::Ok);
        assert_eq!(
            connections(&ServerFacts::default()).status,
            CheckStatus::Skipped
        );
    }
}
