//! The kinds of faults: their names, which nemesis has which, and what each may do to a command.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// SIGKILL of the holder's front.
    KillFront,
    /// SIGSTOP of the holder's front for much less than the ttl.
    FreezeFrontShort,
    /// For about the ttl.
    FreezeFrontNear,
    /// For longer than the ttl.
    FreezeFrontLong,
    /// SIGTERM to the holder's front.
    TermFront,
    /// SIGKILL of the holder's monitor.
    KillMonitor,
    /// SIGSTOP of the holder's monitor.
    FreezeMonitor,
    /// SIGKILL of any process of the command's tree.
    KillCommand,
    /// SIGSTOP of the command.
    FreezeCommand,
    /// SIGKILL of a waiter.
    KillWaiter,
    /// SIGSTOP of a waiter.
    FreezeWaiter,
    /// SIGTERM to a waiter.
    TermWaiter,
    /// KILL CONNECTION of the holder's session.
    KillSession,
    /// KILL CONNECTION of any session that stands in line.
    KillWaitingSession,
    /// What either side sends is lost.
    CutBoth,
    /// What clients send is lost.
    CutRequests,
    /// What the server sends is lost.
    CutReplies,
    /// What either side sends comes when the fault is over.
    Delay,
    /// The reply to one question is lost, and the connection silent from then on.
    LoseReply,
    /// The reply to one question comes late, perhaps when nobody waits for it any more.
    LateReply,
    /// One question is done, and its client gets an error in place of the reply.
    ErrorReply,
    /// All connections end by an RST.
    ResetConnections,
    /// A byte a second.
    Drip,
    /// All connections end, and new ones are accepted but hear nothing.
    Silence,
    /// The server is killed and started again.
    KillServer,
    /// The server is shut down in order and started again.
    RestartServer,
    /// SIGSTOP of the server.
    FreezeServer,
    /// The server's clock goes an hour forward.
    HourForward,
    /// The server's clock goes an hour back.
    HourBack,
    /// The server's clock runs twice as fast.
    DoubleSpeed,
    /// The server's clock runs half as fast.
    HalfSpeed,
    /// An operator's `dlock release`, whoever has the lease then.
    Release,
    /// Nobody reads what the holder writes to standard error, and it has something to write: its session is killed.
    StopReader,
}

/// What a fault is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The processes of the run that holds the action.
    Holder,
    /// A run that waits for it.
    Waiter,
    /// A connection, by way of the server.
    Session,
    /// All connections of an action that go through its proxy.
    Network,
    /// The site's server.
    Server,
    /// That server's clock.
    Clock,
    /// The lease, by way of an operator.
    Lease,
    /// The process that reads a holder's messages.
    Reader,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 33] = [
        Self::KillFront,
        Self::FreezeFrontShort,
        Self::FreezeFrontNear,
        Self::FreezeFrontLong,
        Self::TermFront,
        Self::KillMonitor,
        Self::FreezeMonitor,
        Self::KillCommand,
        Self::FreezeCommand,
        Self::KillWaiter,
        Self::FreezeWaiter,
        Self::TermWaiter,
        Self::KillSession,
        Self::KillWaitingSession,
        Self::CutBoth,
        Self::CutRequests,
        Self::CutReplies,
        Self::Delay,
        Self::LoseReply,
        Self::LateReply,
        Self::ErrorReply,
        Self::ResetConnections,
        Self::Drip,
        Self::Silence,
        Self::KillServer,
        Self::RestartServer,
        Self::FreezeServer,
        Self::HourForward,
        Self::HourBack,
        Self::DoubleSpeed,
        Self::HalfSpeed,
        Self::Release,
        Self::StopReader,
    ];

    pub(crate) fn victim(self) -> Victim {
        match self {
            Self::KillFront
            | Self::FreezeFrontShort
            | Self::FreezeFrontNear
            | Self::FreezeFrontLong
            | Self::TermFront
            | Self::KillMonitor
            | Self::FreezeMonitor
            | Self::KillCommand
            | Self::FreezeCommand => Victim::Holder,
            Self::KillWaiter | Self::FreezeWaiter | Self::TermWaiter => Victim::Waiter,
            Self::KillSession | Self::KillWaitingSession => Victim::Session,
            Self::CutBoth
            | Self::CutRequests
            | Self::CutReplies
            | Self::Delay
            | Self::LoseReply
            | Self::LateReply
            | Self::ErrorReply
            | Self::ResetConnections
            | Self::Drip
            | Self::Silence => Victim::Network,
            Self::KillServer | Self::RestartServer | Self::FreezeServer => Victim::Server,
            Self::HourForward | Self::HourBack | Self::DoubleSpeed | Self::HalfSpeed => {
                Victim::Clock
            }
            Self::Release => Victim::Lease,
            Self::StopReader => Victim::Reader,
        }
    }

    /// Whether the server may be out of a holder's reach while the fault lasts.
    pub(crate) fn is_outage(self) -> bool {
        match self.victim() {
            Victim::Server => true,
            // One reply, or all connections once, costs no more than the next attempt.
            Victim::Network => {
                let replies = [Self::LoseReply, Self::LateReply, Self::ErrorReply];
                self != Self::ResetConnections && !replies.contains(&self)
            }
            _ => false,
        }
    }

    /// Whether it may stop the front of a holder. A waiter may be one by then.
    pub(crate) fn freezes_front(self) -> bool {
        matches!(
            self,
            Self::FreezeFrontShort
                | Self::FreezeFrontNear
                | Self::FreezeFrontLong
                | Self::FreezeWaiter
        )
    }

    /// How long the fault lasts for a lease of `ttl`, where `severity` from 0 to 1 is the schedule's choice.
    pub(crate) fn length(self, ttl: Duration, severity: f64) -> Duration {
        let between =
            |low: Duration, high: Duration| low + high.saturating_sub(low).mul_f64(severity);
        match self {
            Self::FreezeFrontShort => between(ttl / 20, ttl / 3),
            Self::FreezeFrontNear => between(ttl * 4 / 5, ttl * 6 / 5),
            Self::FreezeFrontLong => {
                between(ttl + Duration::from_secs(2), ttl + Duration::from_secs(4))
            }
            Self::FreezeMonitor
            | Self::FreezeCommand
            | Self::FreezeWaiter
            | Self::CutBoth
            | Self::CutRequests
            | Self::CutReplies
            | Self::Delay
            | Self::LateReply
            | Self::Drip
            | Self::Silence
            | Self::StopReader
            | Self::FreezeServer => between(ttl / 10, ttl * 3 / 2),
            Self::HourForward | Self::HourBack | Self::DoubleSpeed | Self::HalfSpeed => {
                between(ttl / 4, ttl * 3 / 2)
            }
            // Named one by one: a kind that is forgotten here would be counted and do nothing.
            Self::KillFront
            | Self::TermFront
            | Self::KillMonitor
            | Self::KillCommand
            | Self::KillWaiter
            | Self::TermWaiter
            | Self::KillSession
            | Self::KillWaitingSession
            | Self::LoseReply
            | Self::ErrorReply
            | Self::ResetConnections
            | Self::Release
            | Self::KillServer
            | Self::RestartServer => Duration::ZERO,
        }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_string(self).expect("a kind is a word");
        f.pad(name.trim_matches('"'))
    }
}
