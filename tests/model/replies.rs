//! Converts the result of a packet to the response that the real state machines get, as `store::mysql` does.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::{OwnerId, Token};
use dlock::store::{
    Expiry, Failure, FailureKind, Holder, LockRecord, Pause, QueueState, Request, Response,
    TimedResponse, Version,
};

use crate::mutation::Variant;
use crate::server::{Look, Raw, full};
use crate::time::{TTL, Tick, instant, ticks};

/// Returns a response as the database thread delivers it. A response that is received at once and processed late is the
/// worst case, because the own-clock rule counts from the receipt.
pub(crate) fn reply(
    sent: Tick,
    received: Tick,
    outcome: Result<Response, Failure>,
) -> TimedResponse {
    let sent: BootInstant = instant(sent);
    TimedResponse {
        sent,
        received: instant(received).max(sent),
        server_time: None,
        could_grant: true,
        outcome,
    }
}

pub(crate) const fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        message: String::new(),
    }
}

/// Converts a packet's result to a response, as `store::mysql` does.
pub(crate) fn interpret(
    request: &Request,
    raw: Raw,
    variant: Variant,
) -> Result<Response, Failure> {
    Ok(match (request, raw) {
        (_, Raw::NoNamedLocks) => return Err(failure(FailureKind::NoQueueLock)),
        (Request::TryAcquire(request), Raw::Row(look, changed)) => {
            granted(request.owner_id, look, changed, variant)
        }
        (Request::WaitTurn(turn), Raw::Row(look, changed)) => {
            granted(turn.owner_id, look, changed, variant)
        }
        (Request::GetWithQueue(_), Raw::Row(look, _)) => {
            Response::NotAcquired(record(look), view(look))
        }
        (Request::Enqueue(_), Raw::Row(look, _)) => Response::Enqueued(record(look), view(look)),
        (Request::Renew(grant, _), Raw::Row(look, changed)) => {
            let row = record(look);
            let row_is_held = match variant {
                Variant::RevokedIsHeld => row.owner_id == Some(grant.owner_id),
                _ => row.is_held_by(grant.owner_id, Some(grant.token)),
            };
            match (row_is_held, changed) {
                _ if variant == Variant::OkBelieved => Response::Renewed,
                (true, true) => Response::Renewed,
                (true, false) => return Err(failure(FailureKind::Unknown)),
                (false, _) => Response::Lost(row),
            }
        }
        (Request::HandOff(_), Raw::HandedOff(true)) => Response::HandedOff,
        (Request::HandOff(_), Raw::HandedOff(false)) => Response::NotHolder(None),
        (Request::Release(_), Raw::Freed(freed) | Raw::Settled(freed))
            if variant == Variant::SumBelieved && freed.revoked.is_some() =>
        {
            Response::Released
        }
        (Request::Release(request), Raw::Freed(freed) | Raw::Settled(freed)) => {
            match freed.answer(request) {
                Some(answer) => answer,
                None => return Err(failure(FailureKind::Unknown)),
            }
        }
        _ => return Err(failure(FailureKind::Unknown)),
    })
}

fn granted(owner_id: OwnerId, mut look: Look, changed: bool, variant: Variant) -> Response {
    look.revoked &= variant != Variant::RevokedIsHeld;
    match look.read_back(changed).granted(owner_id) {
        // Ignores what was read back: no error counts as a grant.
        _ if variant == Variant::OkBelieved => Response::Granted(Token(look.token.into())),
        // The row names this client, whichever attempt did it.
        Some(Response::AlreadyHeld(token)) if variant == Variant::OldGrantBelieved => {
            Response::Granted(token)
        }
        Some(answer) => answer,
        None => Response::NotAcquired(record(look), view(look)),
    }
}

/// Returns the record that the real state machines get. Columns that dlock only prints have default values.
fn record(look: Look) -> LockRecord {
    LockRecord {
        owner_id: look.owner_id.map(full),
        version: Version {
            token: Token(look.token.into()),
            renewals: look.renewals.into(),
        },
        holder: Holder::default(),
        ttl: ticks(TTL),
        expiry: match look.left {
            0.. => Expiry::In(ticks(look.left.unsigned_abs())),
            _ => Expiry::Ago(ticks(look.left.unsigned_abs())),
        },
        had_queue_lock_here: look.has_queue_lock,
        revoked_ago: look.revoked.then_some(Duration::ZERO),
        pause: (look.paused > 0).then(|| Pause {
            until: String::new(),
            left: ticks(look.paused),
        }),
        ..LockRecord::never_held("a".parse().expect("a name"))
    }
}

fn view(look: Look) -> QueueState {
    QueueState {
        lock_owner: look.lock_owner,
        ahead: look.ahead.into(),
        head_waiting_for: None,
    }
}
