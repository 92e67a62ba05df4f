//! The kinds of faults, with their names, victims and lengths.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray, VariantNames};

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantArray,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// SIGKILL or SIGTERM to the holder's parent process. The parent process of a program is its `dlock hold`.
    KillParent,
    TermParent,
    /// SIGSTOP to the holder's parent process: for at most a third of the ttl, for about the ttl, or for longer.
    FreezeParentShort,
    FreezeParentNear,
    FreezeParentLong,
    /// SIGKILL or SIGSTOP to the holder's monitor.
    KillMonitor,
    FreezeMonitor,
    /// SIGKILL or SIGSTOP to one process of the command's tree, or to the program.
    KillCommand,
    FreezeCommand,
    /// SIGKILL, SIGSTOP or SIGTERM to a waiter.
    KillWaiter,
    FreezeWaiter,
    TermWaiter,
    /// KILL CONNECTION for the holder's session, or for a session with a queue entry.
    KillSession,
    KillWaitingSession,
    /// All packets are lost: in both directions, from clients, or from the server.
    CutBoth,
    CutRequests,
    CutReplies,
    /// All packets in both directions are held until the fault ends.
    Delay,
    /// The response to one request is lost. After that, the connection delivers nothing.
    LoseReply,
    /// The response to one request arrives late, possibly after the client's timeout.
    LateReply,
    /// The server executes one request, and the client receives an error in place of the response.
    ErrorReply,
    ResetConnections,
    /// Each connection passes one byte per second in each direction.
    Drip,
    /// All connections are reset. New connections are accepted but receive nothing.
    Silence,
    /// The server is killed and restarted, shut down cleanly and restarted, or gets SIGSTOP.
    KillServer,
    RestartServer,
    FreezeServer,
    /// The same for a node of a cluster.
    KillNode,
    RestartNode,
    FreezeNode,
    /// A node of a Galera cluster loses all packets from and to the other nodes. A member of a group leaves the group
    /// but keeps running.
    IsolateNode,
    /// Another member of a group, or the replica, becomes the primary, as an operator requests.
    SwitchPrimary,
    /// The primary is killed. Its replica, which lacks the latest changes, becomes the primary.
    LosePrimary,
    /// The server's clock is set forward or back by an hour, or runs twice or half as fast.
    HourForward,
    HourBack,
    DoubleSpeed,
    HalfSpeed,
    /// An operator runs `dlock release` without checking which run holds the lease.
    Release,
    /// An operator pauses the action, which revokes its lease, and resumes it after the fault.
    Pause,
    /// The reader of the holder's standard error stops; a program stops to read the events of its hold. The holder's
    /// session is killed, so the holder writes a message.
    StopReader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Holder,
    Waiter,
    /// A session, which the server kills.
    Session,
    /// All connections of an action that go through its proxy.
    Network,
    Server,
    Node,
    Clock,
    /// The lease, which an operator revokes.
    Lease,
    /// The process that reads a holder's messages.
    Reader,
}

impl FaultKind {
    pub(crate) const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    pub(crate) fn victim(self) -> Victim {
        self.properties(Duration::ZERO).0
    }

    /// Returns true if a holder may be unable to reach the server during the fault.
    pub(crate) fn is_outage(self) -> bool {
        match self.victim() {
            Victim::Server | Victim::Node => true,
            // The loss of one response, or one reset of all connections, costs at most one more attempt.
            Victim::Network => {
                let replies = [Self::LoseReply, Self::LateReply, Self::ErrorReply];
                self != Self::ResetConnections && !replies.contains(&self)
            }
            _ => false,
        }
    }

    /// Returns true if the fault may freeze the parent process of a holder. A frozen waiter may have become the holder.
    pub(crate) fn freezes_parent(self) -> bool {
        matches!(
            self,
            Self::FreezeParentShort
                | Self::FreezeParentNear
                | Self::FreezeParentLong
                | Self::FreezeWaiter
        )
    }

    /// Returns the length of the fault for a lease of `ttl`. `severity` is a number from 0 to 1 from the schedule.
    pub(crate) fn length(self, ttl: Duration, severity: f64) -> Duration {
        let (_, [shortest, longest]) = self.properties(ttl);
        shortest + longest.saturating_sub(shortest).mul_f64(severity)
    }

    /// Returns the victim, and the shortest and the longest length of the fault for a lease of `ttl`. No wildcard is
    /// used here, because a new kind would silently get a length of zero and have no effect.
    fn properties(self, ttl: Duration) -> (Victim, [Duration; 2]) {
        let at_once = [Duration::ZERO; 2];
        let lasting = [ttl / 10, ttl * 3 / 2];
        let seconds = Duration::from_secs;
        match self {
            Self::KillParent | Self::TermParent | Self::KillMonitor | Self::KillCommand => {
                (Victim::Holder, at_once)
            }
            Self::FreezeParentShort => (Victim::Holder, [ttl / 20, ttl / 3]),
            Self::FreezeParentNear => (Victim::Holder, [ttl * 4 / 5, ttl * 6 / 5]),
            Self::FreezeParentLong => (Victim::Holder, [ttl + seconds(2), ttl + seconds(4)]),
            Self::FreezeMonitor | Self::FreezeCommand => (Victim::Holder, lasting),
            Self::KillWaiter | Self::TermWaiter => (Victim::Waiter, at_once),
            Self::FreezeWaiter => (Victim::Waiter, lasting),
            Self::KillSession | Self::KillWaitingSession => (Victim::Session, at_once),
            Self::CutBoth
            | Self::CutRequests
            | Self::CutReplies
            | Self::Delay
            | Self::LateReply
            | Self::Drip
            | Self::Silence => (Victim::Network, lasting),
            Self::LoseReply | Self::ErrorReply | Self::ResetConnections => {
                (Victim::Network, at_once)
            }
            Self::KillServer | Self::RestartServer => (Victim::Server, at_once),
            Self::FreezeServer => (Victim::Server, lasting),
            Self::KillNode | Self::RestartNode | Self::SwitchPrimary => (Victim::Node, at_once),
            // The nodes of a Galera cluster exclude a silent node after a time within this range.
            Self::FreezeNode | Self::IsolateNode => (Victim::Node, [ttl / 10, ttl * 3]),
            // During this time, the replica receives no changes.
            Self::LosePrimary => (Victim::Node, [ttl / 10, ttl / 2]),
            Self::HourForward | Self::HourBack | Self::DoubleSpeed | Self::HalfSpeed => {
                (Victim::Clock, [ttl / 4, ttl * 3 / 2])
            }
            Self::Release => (Victim::Lease, at_once),
            Self::Pause => (Victim::Lease, lasting),
            Self::StopReader => (Victim::Reader, lasting),
        }
    }
}
