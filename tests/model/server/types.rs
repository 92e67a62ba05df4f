//! The state of the model's server and the results of its packets. Pure.

use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::read_back::{AttemptReadBack, ReleaseReadBack};
use dlock::store::{EarlierSessions, NotePlace, Owner, POLLER_TIMEOUT, QueueLockOwner, Request};

use super::statements::{Listed, Note, SessionIds};
use crate::time::whole_ticks;

/// A session of a client. It belongs either to the connection that the client uses, or to a connection that the client
/// has dropped and whose end the server has not detected.
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

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u32,
    pub(crate) has_queue_lock: bool,
    /// The holder's session. None if the session has ended.
    pub(crate) session: Option<Session>,
    /// Tick at which the lease expires, by the server's clock.
    pub(crate) expires: i8,
    pub(crate) revoked: bool,
    /// Tick until which the action is paused, by the server's clock. None if the action is not paused.
    pub(crate) paused: Option<i8>,
    /// The sessions of a command that are noted in the row. None if there are none.
    pub(crate) note: Option<Note>,
    /// True if slots may contain notes too. Only in the record.
    pub(crate) may_have_noted_slots: bool,
}

impl Row {
    /// Returns the row of an action that was never granted.
    pub(super) fn new(token: u8) -> Self {
        Self {
            token,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WaiterEntry {
    pub(crate) position: u8,
    pub(crate) owner_id: u8,
    /// Tick at which the waiter entered the queue.
    pub(super) since: i8,
    pub(crate) session: Option<Session>,
    /// Tick of the last poll of the waiter. None if the waiter uses the queue lock.
    pub(super) last_poll: Option<i8>,
    /// True if the waiter has started another wait for the queue lock.
    pub(super) waits_again: bool,
}

/// The position of a packet in its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    First,
    /// The attempt after the wait for the queue lock.
    HasQueueLock,
    /// The attempt after a read that has found no recorded success.
    NotDone,
    /// The packet of a renewal that writes the sessions that the process list contains.
    Note(Listed),
    /// The packet after a release that did not free the row. It settles a revoked lease, or a run whose row an operator
    /// has freed.
    Settle(ReleaseReadBack),
}

/// A change of the server's behaviour that a test can enable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The server refuses named locks.
    NoQueueLock,
    /// A lease can be taken over as soon as it expires by the server's clock.
    ServerClockSuffices,
    /// The loss of the queue lock counts as a hand-off.
    LostQueueLockIsHandOff,
    /// A revoked lease can be renewed and released like any other.
    RevokedIsHeld,
    /// A renewal does not update the session in the row.
    SessionIsNotUpdated,
    /// A grant of an exclusive lease beside notes in slots does not mark the record.
    NotedSlotsAreNotMarked,
    /// A grant removes the noted sessions.
    GrantRemovesNote,
    /// An attempt does not require the database and the version that the contender has read.
    LastReadIsIgnored,
    /// A waiter that waits again does not mark its entry.
    MarksAreMissing,
    /// A waiter lets the same waiter pass several times.
    PassesAreForgotten,
    /// A holder whose grant is lost writes it again even if the row contains another owner id or a larger token.
    ReassertionOverwrites,
    /// A row that was removed is created again with token 0.
    LowestTokenIsMissing,
    /// The server refuses to write the history, which a correct server may do.
    HistoryIsRefused,
    /// Only the limit of the contender counts, not those of the holders.
    OnlyOwnLimitCounts,
    /// A grant of a slot does not change the token of a shared record.
    SlotKeepsToken,
    /// The grant of a slot leaves the record free.
    SharedRecordIsFree,
    /// The slot of a dead holder is freed although its lease was renewed.
    DeadSlotMayBeRenewed,
    /// The success of another run with the same key does not count for a run in a slot beside it.
    OnlyOwnSuccessCounts,
}

/// Up to two rules. A correct server with named locks has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules([Option<Rule>; 2]);

impl Rules {
    pub(crate) const NONE: Self = Self([None; 2]);

    pub(crate) const fn and(self, rule: Rule) -> Self {
        Self([Some(rule), self.0[0]])
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0.contains(&Some(rule))
    }
}

/// The waiters that came before a contender and that the queue lock does not order correctly.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Behind {
    /// True if one of them is a live poller.
    pub(crate) poller: bool,
    /// True if one of them has a mark.
    pub(crate) mark: bool,
}

/// The row and the state of the queue in a response.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is an independent column"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowView {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u32,
    /// Ticks until the lease expires. Negative if the lease has expired.
    pub(crate) left: i8,
    pub(crate) revoked: bool,
    pub(crate) has_queue_lock: bool,
    /// Ticks until the pause ends. 0 if the action is not paused.
    pub(crate) paused: u8,
    pub(crate) lock_owner: QueueLockOwner,
    pub(crate) ahead: u8,
    pub(crate) behind: Behind,
    pub(crate) note: Option<Note>,
    pub(crate) database: u8,
    pub(crate) is_done: bool,
    /// True if the record has the mark that slots may contain notes.
    pub(crate) may_have_noted_slots: bool,
    /// True if a slot that nobody or the contender holds contains a note, and the contender reads it.
    pub(crate) has_slot_note: bool,
    pub(crate) slots: [Option<SlotView>; SLOT_VIEWS],
}

pub(super) const SLOT_VIEWS: usize = 3;

/// A lease in a slot in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlotView {
    pub(crate) number: u32,
    pub(crate) limit: Limit,
    pub(crate) owner_id: u8,
    pub(crate) token: u8,
    pub(crate) renewals: u32,
    /// Ticks until the lease expires. Negative if the lease has expired.
    pub(crate) left: i8,
    pub(crate) revoked: bool,
    /// True if the row states that the holder's session has the holder lock.
    pub(crate) had_lock: bool,
    /// True if that session has it. None if the response does not show it.
    pub(crate) alive: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Raw {
    /// The row. The flag is true if the packet changed the row.
    Row(RowView, bool),
    /// The process list that a renewal needs.
    Listed(Listed),
    /// The row after a renewal that has noted the sessions in the process list. The flag is true if the packet changed
    /// the row.
    Noted(RowView, bool, Listed),
    /// The process list, and the sessions that the request has killed.
    Sessions(Listed, SessionIds),
    /// The next note of sessions that must end.
    Note(Option<(NotePlace, Note)>),
    NoteRemoved,
    HasQueueLock,
    /// The session has released the queue lock for an earlier waiter.
    /// Contains the position of the waiter that was let pass.
    HasLetPass(u8),
    HandedOff(bool),
    Released(ReleaseReadBack),
    /// The release is settled. Contains the values that the release read back.
    Settled(ReleaseReadBack),
    /// The server refuses named locks.
    NoNamedLocks,
    /// The server refuses to write the history.
    Refused,
    /// Whether a recorded success makes a run unnecessary.
    Done(bool),
}

impl Raw {
    /// Returns the packet that follows this result of `request`. None if the request has no more packets.
    pub(crate) fn next(&self, request: &Request) -> Option<Stage> {
        match (request, self) {
            (Request::WaitTurn(_), Self::HasQueueLock) => Some(Stage::HasQueueLock),
            (Request::TryAcquire(_), Self::Done(false)) => Some(Stage::NotDone),
            (Request::Renew(_), Self::Listed(listed)) => Some(Stage::Note(*listed)),
            (Request::Release(request), Self::Released(read_back))
                if read_back.needs_reconciling(request) =>
            {
                Some(Stage::Settle(*read_back))
            }
            _ => None,
        }
    }
}

impl WaiterEntry {
    /// Returns true if the waiter has waited for the queue lock before, and has a later position than `position`.
    pub(super) fn is_marked(&self, position: u64) -> bool {
        self.waits_again && self.last_poll.is_none() && u64::from(self.position) > position
    }

    /// Returns true if the waiter is a poller whose last poll was less than [`POLLER_TIMEOUT`] ago.
    pub(super) fn is_live_poller(&self, clock: i8) -> bool {
        self.last_poll.is_some() && !self.is_expired_poller(clock)
    }

    /// Returns true if the waiter is a poller whose last poll was at least [`POLLER_TIMEOUT`] ago.
    pub(super) fn is_expired_poller(&self, clock: i8) -> bool {
        self.last_poll
            .is_some_and(|last_poll| clock - last_poll >= whole_ticks(POLLER_TIMEOUT))
    }
}

/// Returns the model's number for the owner id in a request. Returns 0 if the request contains no owner id.
pub(crate) fn owner_id_in(request: &Request) -> u8 {
    let owner_id = match request {
        Request::TryAcquire(request) => request.owner_id,
        Request::GetWithQueue(entry) | Request::Enqueue(entry) => entry.owner_id,
        Request::WaitTurn(turn) => turn.owner_id,
        Request::Renew(request) => request.grant.owner_id,
        Request::HandOff(grant) => grant.owner_id,
        Request::Release(request) => request.owner_id,
        Request::GetNote(request) => request.owner_id,
        Request::Get | Request::EndSessions(_) | Request::RemoveNote(_) => return 0,
    };
    owner_id.bytes()[NUMBER_BYTE]
}

/// Returns the owner id for the model's number `number`.
pub(crate) const fn owner_id_of_number(number: u8) -> OwnerId {
    let mut owner_id = [0; NUMBER_BYTE + 1];
    owner_id[NUMBER_BYTE] = number;
    OwnerId::new(owner_id)
}

impl RowView {
    /// Returns the lease of `owner_id` in a slot. None if there is none.
    pub(crate) fn own_slot(self, owner_id: OwnerId) -> Option<SlotView> {
        let mut slots = self.slots.into_iter().flatten();
        slots.find(|slot| owner_id_of_number(slot.owner_id) == owner_id)
    }

    /// Returns whether the row contains the sessions of an earlier holder.
    pub(crate) const fn sessions(self) -> EarlierSessions {
        match self.note.is_some() || self.may_have_noted_slots || self.has_slot_note {
            true => EarlierSessions::Noted,
            false => EarlierSessions::None,
        }
    }

    /// Returns the values that an attempt of `owner_id` reads back.
    pub(crate) fn read_back(self, owner_id: OwnerId, changed: bool) -> AttemptReadBack {
        let slot = self.own_slot(owner_id);
        AttemptReadBack {
            changed,
            slot: slot.map_or(1, |slot| slot.number),
            owner: match slot {
                Some(slot) => Owner {
                    owner_id: Some(owner_id_of_number(slot.owner_id)),
                    token: Token(slot.token.into()),
                    is_revoked: slot.revoked,
                },
                None => Owner {
                    owner_id: self.owner_id.map(owner_id_of_number),
                    token: Token(self.token.into()),
                    is_revoked: self.revoked,
                },
            },
            sessions: self.sessions(),
            has_old_entry: false,
        }
    }
}

/// Index of the byte that contains the model's number. All other bytes are zero in the model, so the state machines use
/// the same jitter for all owner ids.
pub(crate) const NUMBER_BYTE: usize = 15;
