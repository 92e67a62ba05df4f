//! The state of the model's server and the results of its packets. Pure.

use dlock::lease::{OwnerId, Token};
use dlock::store::read_back::{AttemptReadBack, ReleaseReadBack};
use dlock::store::{Owner, POLLER_TIMEOUT, QueueLockOwner, Request};

use crate::time::whole_ticks;

/// A session of a client: of the connection that the client still uses, or of one that it has dropped and the server
/// has not noticed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) client: usize,
    pub(crate) dropped: bool,
}

impl Session {
    pub(crate) const fn current(client: usize) -> Self {
        Self {
            client,
            dropped: false,
        }
    }

    pub(crate) const fn dropped(client: usize) -> Self {
        Self {
            client,
            dropped: true,
        }
    }
}

/// The row of the action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    pub(crate) has_queue_lock: bool,
    /// The holder's session. None once it has ended.
    pub(crate) session: Option<Session>,
    /// Tick of the expiry, by the server's clock.
    pub(crate) expires: i8,
    /// True if an operator has revoked the lease.
    pub(crate) revoked: bool,
    /// Tick until which the action is paused, by the server's clock. None if it is not paused.
    pub(crate) paused: Option<i8>,
}

/// An entry of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WaiterEntry {
    pub(crate) owner_id: u8,
    pub(crate) session: Option<Session>,
    /// Tick at which its poller was last seen. None if the waiter uses the queue lock.
    pub(super) seen: Option<i8>,
}

/// The packet of a request that is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The first packet.
    First,
    /// The attempt after the wait for the queue lock.
    HasQueueLock,
    /// The statements that settle a revoked lease, or a run whose row was freed by hand, after the release that found
    /// it.
    Settle(ReleaseReadBack),
}

/// The rules that a broken variant breaks.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a variant of its own"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// Named locks are refused.
    pub(crate) no_queue_lock: bool,
    /// A lease can be taken over as soon as it expires by the server's clock.
    pub(crate) clock_alone: bool,
    /// A queue lock that the holder has lost counts as a hand-off.
    pub(crate) queue_lock_alone: bool,
    /// A revoked lease can be renewed and released like any other.
    pub(crate) revoked_is_held: bool,
    /// A renewal does not update the session in the row.
    pub(crate) session_stays: bool,
}

/// The row and the queue in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    /// Ticks until the lease expires; negative if it has expired.
    pub(crate) left: i8,
    pub(crate) revoked: bool,
    pub(crate) has_queue_lock: bool,
    /// Ticks for which the action is still paused.
    pub(crate) paused: u8,
    pub(crate) lock_owner: QueueLockOwner,
    pub(crate) ahead: u8,
}

/// The raw result of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Raw {
    /// The row, and true if the packet changed it.
    Row(Look, bool),
    /// The session owns the queue lock.
    HasQueueLock,
    /// True if the owner id was handed off.
    HandedOff(bool),
    /// The values that were read back after a release.
    Freed(ReleaseReadBack),
    /// The release with these values is settled.
    Settled(ReleaseReadBack),
    /// Named locks are refused.
    NoNamedLocks,
}

impl Raw {
    /// Returns the next packet of `request` after this result. None if this packet was the last.
    pub(crate) fn next(&self, request: &Request) -> Option<Stage> {
        match (request, self) {
            (Request::WaitTurn(_), Self::HasQueueLock) => Some(Stage::HasQueueLock),
            (Request::Release(request), Self::Freed(freed)) if freed.needs_settling(request) => {
                Some(Stage::Settle(*freed))
            }
            _ => None,
        }
    }
}

impl WaiterEntry {
    /// Returns true if its waiter polls and has not done so for [`POLLER_TIMEOUT`].
    pub(super) fn is_expired_poller(&self, clock: i8) -> bool {
        self.seen
            .is_some_and(|seen| clock - seen >= whole_ticks(POLLER_TIMEOUT))
    }
}

/// Returns the model's number of the owner id in a request; 0 if there is none.
pub(super) fn owner_id_in(request: &Request) -> u8 {
    let owner_id = match request {
        Request::TryAcquire(request) => request.owner_id,
        Request::GetWithQueue(entry) | Request::Enqueue(entry) => entry.owner_id,
        Request::WaitTurn(turn) => turn.owner_id,
        Request::Renew(grant, _) | Request::HandOff(grant) => grant.owner_id,
        Request::Release(request) => request.owner_id,
        Request::Get => return 0,
    };
    owner_id.bytes()[OWNER_ID]
}

/// Returns the owner id with this number.
pub(crate) const fn full(number: u8) -> OwnerId {
    let mut owner_id = [0; OWNER_ID + 1];
    owner_id[OWNER_ID] = number;
    OwnerId::new(owner_id)
}

impl Look {
    /// Returns the values that an attempt reads back.
    pub(crate) fn read_back(self, changed: bool) -> AttemptReadBack {
        AttemptReadBack {
            changed,
            owner: Owner {
                owner_id: self.owner_id.map(full),
                token: Token(self.token.into()),
                is_revoked: self.revoked,
            },
        }
    }
}

/// Index of the byte in which owner ids differ. The other bytes are zero, so that the state machines' jitter is the
/// same for all.
pub(crate) const OWNER_ID: usize = 15;
