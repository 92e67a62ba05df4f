//! Converts a request of the model to a request with the owner ids and tokens on the server. Pure.

use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::session::{SessionLook, SessionNote};
use dlock::store::{
    AcquireMode, AcquireRequest, QueueEntry, ReleaseRequest, RenewRequest, Request, Version,
    WaitRequest,
};

/// Returns a copy of `request` whose owner ids and tokens are converted by `owner_id` and `token`. `command` is the note
/// of the command's session on the server.
pub(crate) fn translated(
    request: &Request,
    owner_id: impl Fn(OwnerId) -> OwnerId,
    token: impl Fn(Token) -> Token,
    command: &SessionNote,
) -> Request {
    let grant = |grant: &Grant| Grant {
        owner_id: owner_id(grant.owner_id),
        token: token(grant.token),
    };
    let entry = |entry: &QueueEntry| QueueEntry {
        owner_id: owner_id(entry.owner_id),
        ..*entry
    };
    match request {
        Request::TryAcquire(request) => Request::TryAcquire(AcquireRequest {
            owner_id: owner_id(request.owner_id),
            mode: match request.mode {
                AcquireMode::TakeOver { version, fenced } => AcquireMode::TakeOver {
                    version: Version {
                        token: token(version.token),
                        ..version
                    },
                    fenced,
                },
                mode => mode,
            },
            queue_lock: request.queue_lock,
        }),
        Request::GetWithQueue(queued) => Request::GetWithQueue(entry(queued)),
        Request::Enqueue(queued) => Request::Enqueue(entry(queued)),
        Request::Get | Request::EndSessions(_) => request.clone(),
        Request::WaitTurn(turn) => Request::WaitTurn(WaitRequest {
            owner_id: owner_id(turn.owner_id),
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
