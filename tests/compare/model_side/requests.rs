//! The requests of the contenders, for the current state of the model.

use std::time::Duration;

use dlock::lease::{Grant, Token};
use dlock::store::session::{CommandConnections, SessionLook, SessionPolicy};
use dlock::store::{
    AcquireMode, AcquireRequest, DatabaseId, HistoryOutcome, LastRead, QueueEntry, QueueLock,
    Reassertion, ReleaseRequest, RenewRequest, Request, RunHistory, RunRecord, Version,
    WaitRequest,
};

use super::{ModelSide, owner_id_of};
use crate::observed::{is_lease, number};
use crate::server::owner_id_of_number;
use crate::step::{
    DeadChoice, GrantChoice, LastReadChoice, NoteChoice, RequestKind, RunEnd, VersionChoice,
};

/// Maximum time that a contender waits for the queue lock. It is longer than any wait in a sequence for which the
/// results are equal.
const WAIT_LIMIT: Duration = Duration::from_secs(4);

/// Number of renewals in the row after a grant was written again.
const REASSERTED_RENEWALS: u64 = 1000;

/// A database that is not the one of the server.
pub(crate) const OTHER_DATABASE: DatabaseId = DatabaseId(u64::MAX);

impl ModelSide {
    /// Returns what an attempt of contender `index` requires.
    fn last_read(&self, index: usize, choice: LastReadChoice) -> Option<LastRead> {
        let database = match choice {
            LastReadChoice::OtherDatabase => OTHER_DATABASE,
            _ => DatabaseId(self.server.database.into()),
        };
        let mut version = self.contenders[index].last_read;
        if choice == LastReadChoice::Newer {
            version = self.server.row.version();
            version.renewals += 1;
        }
        (choice != LastReadChoice::Nothing).then_some(LastRead {
            database: Some(database),
            version,
            highest_token: version.token,
        })
    }

    fn has_limits(&self) -> bool {
        let owner_ids = (0..self.contenders.len()).map(owner_id_of);
        let mut limits = owner_ids.map(|owner_id| self.server.limit_of(owner_id));
        limits.any(|limit| !limit.is_exclusive())
    }

    /// Returns the owner id, the token and the number of the first lease in a slot or, if there is none, of the row. The
    /// owner id is None if the row contains no lease.
    fn first_lease(&self) -> (Option<u8>, u8, u32) {
        let slots = self.server.slots.iter().map(|slot| &slot.row).zip(1..);
        let rows = slots.chain([(&self.server.row, 1)]);
        let mut leases = rows.filter(|(row, _)| is_lease(row.owner_id));
        let none = (None, self.server.row.token, 1);
        leases
            .next()
            .map_or(none, |(row, number)| (row.owner_id, row.token, number))
    }

    fn highest_token(&self) -> u8 {
        let slots = self.server.slots.iter().map(|slot| slot.row.token);
        slots.fold(self.server.row.token, u8::max)
    }

    /// Returns the number and the version of the slot that an attempt frees. None if the slot does not exist.
    fn slot_to_free(&self, dead: DeadChoice) -> Option<(u32, Version)> {
        let (slot, number) = self.server.slots.iter().zip(1..).nth(dead.index)?;
        let mut version = slot.row.version();
        match version.renewals {
            _ if !dead.is_old => {}
            0 => version.token = Token(version.token.0.saturating_sub(1)),
            _ => version.renewals -= 1,
        }
        Some((number, version))
    }

    /// Returns the grant that a request of contender `index` contains.
    fn grant(&self, index: usize, choice: GrantChoice) -> Grant {
        let (contender, number) = (&self.contenders[index], owner_id_of(index));
        let (owner_id, token, slot) = match (choice, self.server.lease_of(number)) {
            (GrantChoice::OwnIdWithCurrentToken, Some(lease)) => {
                (number, lease.token, contender.slot)
            }
            (GrantChoice::Own | GrantChoice::OwnIdWithCurrentToken, _) => {
                (number, contender.token, contender.slot)
            }
            (GrantChoice::Current, _) => {
                let (owner_id, token, slot) = self.first_lease();
                (owner_id.unwrap_or(number), token, slot)
            }
        };
        Grant {
            owner_id: owner_id_of_number(owner_id),
            token: Token(token.into()),
            slot,
        }
    }

    fn renew(&self, grant: Grant, note: NoteChoice, queue_lock: QueueLock) -> Request {
        let token = grant.token;
        let look = (note != NoteChoice::Unchanged).then(|| SessionLook {
            token,
            policy: SessionPolicy::Kill,
            connections: CommandConnections::default(),
            note: (note == NoteChoice::Found).then(|| self.server.note_of_all(token)),
        });
        Request::Renew(RenewRequest {
            look: look.map(Box::new),
            ..RenewRequest::new(grant, queue_lock)
        })
    }

    pub(super) fn request(&self, index: usize, kind: RequestKind) -> Request {
        let contender = &self.contenders[index];
        let (owner_id, queue_lock) = (owner_id_of_number(owner_id_of(index)), contender.queue_lock);
        let row = &self.server.row;
        let grant = |choice| self.grant(index, choice);
        let entry = QueueEntry {
            owner_id,
            queue_lock,
        };
        let last_read = |choice| self.last_read(index, choice);
        let attempt = |mode, choice| {
            Request::TryAcquire(AcquireRequest {
                owner_id,
                mode,
                queue_lock,
                last_read: last_read(choice),
                in_order: queue_lock == QueueLock::Available
                    && !matches!(mode, AcquireMode::TakeOver { .. }),
                prune_dead: false,
            })
        };
        let nothing = LastReadChoice::Nothing;
        match kind {
            RequestKind::AcquireFirst => attempt(AcquireMode::First, nothing),
            RequestKind::AcquireIfFree(choice) => attempt(AcquireMode::IfFree, choice),
            RequestKind::TakeOver(version_choice) => {
                let (version, choice) = match version_choice {
                    VersionChoice::LastRead => (contender.last_read, LastReadChoice::LastRead),
                    VersionChoice::Current => (row.version(), nothing),
                };
                let fenced = false;
                attempt(AcquireMode::TakeOver { version, fenced }, choice)
            }
            RequestKind::AcquireAmongSlots(choice, dead) => {
                let dead = dead.and_then(|dead| self.slot_to_free(dead));
                let fenced = false;
                attempt(AcquireMode::AmongSlots { dead, fenced }, choice)
            }
            RequestKind::GetWithQueue => Request::GetWithQueue(entry),
            RequestKind::Enqueue => Request::Enqueue(entry),
            RequestKind::WaitTurn(choice, may_acquire, lets_pass) => {
                // A request about a slot releases the queue lock before its commit. A waiter that only reads, or that
                // reads another database, does not wait for the commit.
                let choice = match choice {
                    LastReadChoice::OtherDatabase if self.has_limits() => nothing,
                    choice => choice,
                };
                Request::WaitTurn(WaitRequest {
                    owner_id,
                    limit: Some(WAIT_LIMIT),
                    room: None,
                    prune_dead: false,
                    lets_pass,
                    let_pass: 0,
                    may_acquire: may_acquire || self.has_limits(),
                    last_read: last_read(choice),
                })
            }
            RequestKind::Renew(choice, note) => self.renew(grant(choice), note, queue_lock),
            RequestKind::Reassert(true) => {
                let token = match contender.token > row.token {
                    true => contender.token,
                    // No two slots may have the same token.
                    false => self.highest_token() + 1,
                };
                let token = Token(token.into());
                let own = grant(GrantChoice::Own);
                reassert(Grant { token, ..own }, queue_lock)
            }
            RequestKind::Reassert(false) => {
                reassert(grant(GrantChoice::OwnIdWithCurrentToken), queue_lock)
            }
            RequestKind::HandOff => Request::HandOff(grant(GrantChoice::Own)),
            RequestKind::Release {
                grant_choice,
                run_end,
                has_entry,
                handed_off,
                clears_sessions,
            } => {
                let sent_grant = grant_choice.map(grant);
                let owner_id = sent_grant.map_or(owner_id, |grant| grant.owner_id);
                let limit = self.server.limit_of(number(owner_id));
                Request::Release(ReleaseRequest {
                    owner_id,
                    token: sent_grant.map(|grant| grant.token),
                    queue_lock,
                    has_entry,
                    keep: None,
                    run: run_end.map(run_record),
                    history: RunHistory::Written,
                    clears_sessions,
                    // dlock hands off only an exclusive lease.
                    handed_off: handed_off && limit.is_exclusive(),
                })
            }
        }
    }
}

const fn run_record(run_end: RunEnd) -> RunRecord {
    RunRecord {
        outcome: match run_end {
            RunEnd::Exited => HistoryOutcome::Exited(0),
            RunEnd::Killed => HistoryOutcome::Killed(9),
        },
        waited: Duration::from_secs(2),
        duration: Duration::from_secs(1),
        sessions_ended: 0,
        processes_killed: 0,
        dlock_status: None,
    }
}

fn reassert(grant: Grant, queue_lock: QueueLock) -> Request {
    Request::Renew(RenewRequest {
        reassertion: Some(Reassertion {
            renewals: REASSERTED_RENEWALS,
            fenced: false,
        }),
        ..RenewRequest::new(grant, queue_lock)
    })
}
