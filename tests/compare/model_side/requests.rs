//! The requests of the contenders, for the current state of the model.

use std::time::Duration;

use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::session::{CommandConnections, SessionLook, SessionPolicy};
use dlock::store::{
    AcquireMode, AcquireRequest, DatabaseId, HistoryOutcome, LastRead, QueueEntry, QueueLock,
    Reassertion, ReleaseRequest, RenewRequest, Request, RunHistory, RunRecord, Version,
    WaitRequest,
};

use super::{ModelSide, owner_id_of};
use crate::server::owner_id_of_number;
use crate::step::{GrantChoice, LastReadChoice, NoteChoice, RequestKind, RunEnd, VersionChoice};

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
        let row = &self.server.row;
        let database = match choice {
            LastReadChoice::OtherDatabase => OTHER_DATABASE,
            _ => DatabaseId(self.server.database.into()),
        };
        let version = match choice {
            LastReadChoice::Newer => Version {
                token: Token(row.token.into()),
                renewals: u64::from(row.renewals) + 1,
            },
            _ => self.contenders[index].last_read,
        };
        (choice != LastReadChoice::Nothing).then_some(LastRead {
            database: Some(database),
            version,
            highest_token: version.token,
        })
    }

    /// Returns a request of contender `index`.
    pub(super) fn request(&self, index: usize, kind: RequestKind) -> Request {
        let contender = &self.contenders[index];
        let (owner_id, queue_lock) = (owner_id_of_number(owner_id_of(index)), contender.queue_lock);
        let row = &self.server.row;
        let current = Token(row.token.into());
        let grant = |grant_choice| match grant_choice {
            GrantChoice::Own => (owner_id, Token(contender.token.into())),
            GrantChoice::OwnIdWithCurrentToken => (owner_id, current),
            GrantChoice::Current => (row.owner_id.map_or(owner_id, owner_id_of_number), current),
        };
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
                let present = Version {
                    token: current,
                    renewals: row.renewals.into(),
                };
                let (version, choice) = match version_choice {
                    VersionChoice::LastRead => (contender.last_read, LastReadChoice::LastRead),
                    VersionChoice::Current => (present, nothing),
                };
                let fenced = false;
                attempt(AcquireMode::TakeOver { version, fenced }, choice)
            }
            RequestKind::GetWithQueue => Request::GetWithQueue(entry),
            RequestKind::Enqueue => Request::Enqueue(entry),
            RequestKind::WaitTurn(choice, may_acquire, lets_pass) => {
                Request::WaitTurn(WaitRequest {
                    may_acquire,
                    lets_pass,
                    ..wait_request(owner_id, last_read(choice))
                })
            }
            RequestKind::Renew(grant_choice, note) => {
                let (owner_id, token) = grant(grant_choice);
                let look = (note != NoteChoice::Unchanged).then(|| SessionLook {
                    token,
                    policy: SessionPolicy::Kill,
                    connections: CommandConnections::default(),
                    note: (note == NoteChoice::Found).then(|| self.server.note_of_all(token)),
                });
                Request::Renew(RenewRequest {
                    look: look.map(Box::new),
                    ..RenewRequest::new(Grant::new(owner_id, token), queue_lock)
                })
            }
            RequestKind::Reassert(is_lost) => reassert(owner_id, current, is_lost, queue_lock),
            RequestKind::HandOff => {
                let (owner_id, token) = grant(GrantChoice::Own);
                Request::HandOff(Grant::new(owner_id, token))
            }
            RequestKind::Release {
                grant_choice,
                run_end,
                has_entry,
                handed_off,
                clears_sessions,
            } => {
                let sent_grant = grant_choice.map(grant);
                Request::Release(ReleaseRequest {
                    owner_id: sent_grant.map_or(owner_id, |(owner_id, _)| owner_id),
                    token: sent_grant.map(|(_, token)| token),
                    queue_lock,
                    has_entry,
                    keep: None,
                    run: run_end.map(|run_end| RunRecord {
                        outcome: match run_end {
                            RunEnd::Exited => HistoryOutcome::Exited(0),
                            RunEnd::Killed => HistoryOutcome::Killed(9),
                        },
                        waited: Duration::from_secs(2),
                        duration: Duration::from_secs(1),
                        sessions_ended: 0,
                        processes_killed: 0,
                        dlock_status: None,
                    }),
                    history: RunHistory::Written,
                    clears_sessions,
                    handed_off,
                })
            }
        }
    }
}

/// Returns a request that writes a grant again. `current` is the token of the row.
fn reassert(owner_id: OwnerId, current: Token, is_lost: bool, queue_lock: QueueLock) -> Request {
    let token = Token(current.0 + u64::from(is_lost));
    Request::Renew(RenewRequest {
        reassertion: Some(Reassertion {
            renewals: REASSERTED_RENEWALS,
            fenced: false,
        }),
        ..RenewRequest::new(Grant::new(owner_id, token), queue_lock)
    })
}

/// Returns a wait that is followed by an attempt.
const fn wait_request(owner_id: OwnerId, last_read: Option<LastRead>) -> WaitRequest {
    WaitRequest {
        owner_id,
        limit: Some(WAIT_LIMIT),
        room: None,
        prune_dead: false,
        lets_pass: false,
        let_pass: 0,
        may_acquire: true,
        last_read,
    }
}
