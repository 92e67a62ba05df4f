//! Converts a request of the model to a request with the owner ids and tokens on the server. Pure.

use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::session::{SessionLook, SessionNote};
use dlock::store::{
    AcquireMode, AcquireRequest, DatabaseId, LastRead, NoteRequest, QueueEntry, ReleaseRequest,
    RenewRequest, Request, Version, WaitRequest,
};

use crate::model_side::OTHER_DATABASE;

/// Returns a copy of `request` whose owner ids and tokens are converted by `owner_id` and `token`. `command` is the note
/// of the command's session on the server, and `database` is the identity of the server's database.
pub(crate) fn translated(
    request: &Request,
    owner_id: impl Fn(OwnerId) -> OwnerId,
    token: impl Fn(Token) -> Token,
    command: &SessionNote,
    database: DatabaseId,
) -> Request {
    let version = |version: Version| Version {
        token: token(version.token),
        ..version
    };
    let last_read = |last: Option<LastRead>| {
        last.map(|last| LastRead {
            database: match last.database {
                Some(OTHER_DATABASE) => last.database,
                known => known.and(Some(database)),
            },
            version: version(last.version),
            highest_token: token(last.highest_token),
        })
    };
    let grant = |grant: &Grant| Grant {
        owner_id: owner_id(grant.owner_id),
        token: token(grant.token),
        ..*grant
    };
    let entry = |entry: &QueueEntry| QueueEntry {
        owner_id: owner_id(entry.owner_id),
        ..*entry
    };
    match request {
        Request::TryAcquire(request) => Request::TryAcquire(AcquireRequest {
            owner_id: owner_id(request.owner_id),
            mode: match request.mode {
                AcquireMode::TakeOver {
                    version: seen,
                    fenced,
                } => AcquireMode::TakeOver {
                    version: version(seen),
                    fenced,
                },
                AcquireMode::AmongSlots { dead, fenced } => AcquireMode::AmongSlots {
                    dead: dead.map(|(slot, seen)| (slot, version(seen))),
                    fenced,
                },
                mode @ (AcquireMode::First | AcquireMode::IfFree) => mode,
            },
            queue_lock: request.queue_lock,
            last_read: last_read(request.last_read),
            in_order: request.in_order,
            prune_dead: request.prune_dead,
        }),
        Request::GetWithQueue(queued) => Request::GetWithQueue(entry(queued)),
        Request::Enqueue(queued) => Request::Enqueue(entry(queued)),
        Request::GetNote(request) => Request::GetNote(NoteRequest {
            owner_id: owner_id(request.owner_id),
            ..*request
        }),
        Request::Get | Request::RemoveNote(_) | Request::EndSessions(_) => request.clone(),
        Request::WaitTurn(turn) => Request::WaitTurn(WaitRequest {
            owner_id: owner_id(turn.owner_id),
            last_read: last_read(turn.last_read),
            ..*turn
        }),
        Request::Renew(request) => Request::Renew(RenewRequest {
            grant: grant(&request.grant),
            look: request.look.as_ref().map(|look| {
                let token = token(look.token);
                let note = look.note.as_ref().map(|_| command.clone());
                Box::new(SessionLook {
                    token,
                    note,
                    ..*look.clone()
                })
            }),
            ..request.clone()
        }),
        Request::HandOff(held) => Request::HandOff(grant(held)),
        Request::Release(request) => Request::Release(ReleaseRequest {
            owner_id: owner_id(request.owner_id),
            token: request.token.map(token),
            ..*request
        }),
    }
}
