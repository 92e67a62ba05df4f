//! Converts the result of a packet to the input of the real state machines, like `store::mysql`.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::{OwnerId, Token};
use dlock::store::session::FoundSessions;
use dlock::store::{
    DatabaseId, Expiry, Failure, FailureKind, Holder, LockRecord, Noted, Pause, QueueState,
    RenewRequest, Request, Response, SessionsLeft, Slot, Success, TimedResponse, Version,
};

use crate::mutation::Variant;
use crate::server::statements::OwnSockets;
use crate::server::{Note, Raw, RowView, SHARED, SlotView, owner_id_of_number};
use crate::time::{TTL, Tick, instant, ticks};

/// Returns a response with its times, as the database thread delivers it. The worst case is a response that is received
/// immediately and processed late, because a waiter measures how long a record has been unchanged from the time at
/// which it receives the response.
pub(crate) fn timed_response(
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
        could_release: true,
        outcome,
    }
}

pub(crate) const fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        message: String::new(),
    }
}

/// Converts the result of a packet to a response or a failure. A broken variant ignores part of the result.
pub(crate) fn interpret(
    request: &Request,
    raw: Raw,
    variant: Variant,
) -> Result<Response, Failure> {
    Ok(match (request, raw) {
        (_, Raw::NoNamedLocks) => return Err(failure(FailureKind::NoQueueLock)),
        (_, Raw::Refused) => return Err(failure(FailureKind::Denied)),
        (Request::TryAcquire(_), Raw::Done(true)) => Response::AlreadyDone(success()),
        (Request::TryAcquire(request), Raw::Row(view_of_row, changed)) => {
            granted(request.owner_id, view_of_row, changed, variant)
        }
        (Request::WaitTurn(turn), Raw::Row(view_of_row, _)) if !turn.may_acquire => {
            not_acquired(view_of_row)
        }
        (Request::WaitTurn(turn), Raw::Row(view_of_row, changed)) => {
            granted(turn.owner_id, view_of_row, changed, variant)
        }
        (Request::GetWithQueue(_), Raw::Row(view_of_row, _)) => not_acquired(view_of_row),
        (Request::Enqueue(_), Raw::Row(view_of_row, _)) if view_of_row.is_done => {
            Response::AlreadyDone(success())
        }
        (Request::Enqueue(_), Raw::Row(view_of_row, _)) => {
            Response::Enqueued(record(view_of_row), queue_state(view_of_row))
        }
        (Request::Renew(request), Raw::Row(view_of_row, changed)) => {
            let found = request.look.as_ref().map(|_| FoundSessions::default());
            return renewed(request, view_of_row, changed, found, variant);
        }
        (Request::Renew(request), Raw::Noted(view_of_row, changed, listed)) => {
            let look = request.look.as_ref();
            let found = look.map(|look| look.find(&listed.process_list(), &mut OwnSockets));
            return renewed(request, view_of_row, changed, found, variant);
        }
        (Request::Get, Raw::Row(view_of_row, _)) => Response::Record(LockRecord {
            sessions: view_of_row.note.map(Note::session_note).map(Box::new),
            ..record(view_of_row)
        }),
        (Request::GetNote(_), Raw::Row(view_of_row, _)) => Response::Record(record(view_of_row)),
        (Request::GetNote(_), Raw::Note(noted)) => {
            let noted = noted.filter(|_| variant != Variant::EarlierStatementsIgnored);
            let noted = noted.map(|(place, note)| {
                let note = note.session_note();
                let text = note.to_text();
                Noted { place, note, text }
            });
            Response::Note(noted.map(Box::new))
        }
        (Request::RemoveNote(_), Raw::NoteRemoved) => Response::NoteRemoved,
        (Request::EndSessions(request), Raw::Sessions(listed, killed)) => {
            Response::Sessions(Box::new(SessionsLeft {
                found: request.look.find(&listed.process_list(), &mut OwnSockets),
                killed: killed.to_vec(),
                denied: Vec::new(),
                elsewhere: None,
            }))
        }
        (Request::WaitTurn(_), Raw::HasLetPass(position)) => Response::HasLetPass(position.into()),
        (Request::HandOff(_), Raw::HandedOff(true)) => Response::HandedOff,
        (Request::HandOff(_), Raw::HandedOff(false)) => Response::NotHolder(None),
        (Request::Release(_), Raw::Released(read_back) | Raw::Settled(read_back))
            if variant == Variant::ChangedRowsTrusted && read_back.revoked.is_some() =>
        {
            Response::Released
        }
        (Request::Release(_), Raw::Released(read_back) | Raw::Settled(read_back)) => {
            match read_back.answer() {
                Some(response) => response,
                None => return Err(failure(FailureKind::Unknown)),
            }
        }
        _ => return Err(failure(FailureKind::Unknown)),
    })
}

/// Returns the response to a renewal. `found` contains the sessions that are noted now. None if the renewal did not
/// look for sessions.
fn renewed(
    request: &RenewRequest,
    view_of_row: RowView,
    changed: bool,
    found: Option<FoundSessions>,
    variant: Variant,
) -> Result<Response, Failure> {
    let grant = request.grant;
    let row = record(view_of_row);
    let row_is_held = match variant {
        Variant::RevokedIsHeld => row.lease.owner_id == Some(grant.owner_id),
        _ => row.is_held_by(grant.owner_id, Some(grant.token)),
    };
    let response = || Response::Renewed(found.map(|found| Box::new(Ok(found))));
    match (row_is_held, changed) {
        _ if variant == Variant::OwnerIdNotReadBack => Ok(response()),
        (true, true) => Ok(response()),
        (true, false) => Err(failure(FailureKind::Unknown)),
        (false, _) => Ok(Response::Lost(row)),
    }
}

fn granted(
    owner_id: OwnerId,
    mut view_of_row: RowView,
    changed: bool,
    variant: Variant,
) -> Response {
    view_of_row.revoked &= variant != Variant::RevokedIsHeld;
    let own_token = view_of_row.own_slot(owner_id).map(|slot| slot.token);
    let own_token = Token(own_token.unwrap_or(view_of_row.token).into());
    match view_of_row.read_back(owner_id, changed).granted(owner_id) {
        // This variant ignores the owner id that was read back. Every response without an error counts as a grant.
        _ if variant == Variant::OwnerIdNotReadBack => {
            Response::Granted(Token(view_of_row.token.into()), 1, view_of_row.sessions())
        }
        // The row contains the owner id of this client, but an earlier attempt may have written it.
        Some(Response::AlreadyHeld(token, slot)) if variant == Variant::OldGrantTrusted => {
            Response::Granted(token, slot, view_of_row.sessions())
        }
        Some(_) if view_of_row.is_done && variant != Variant::SuccessAfterReadIgnored => {
            Response::HeldThoughDone(own_token, success())
        }
        Some(response) => response,
        None => not_acquired(view_of_row),
    }
}

/// Returns the response to a read of the record and the queue.
pub(crate) fn not_acquired(view_of_row: RowView) -> Response {
    match view_of_row.is_done {
        true => Response::AlreadyDone(success()),
        false => Response::NotAcquired(record(view_of_row), queue_state(view_of_row)),
    }
}

/// Returns the recorded success. dlock only prints its content.
const fn success() -> Success {
    Success {
        token: Token(0),
        holder: String::new(),
        at: String::new(),
        ago: Duration::ZERO,
    }
}

/// Returns the record for the real state machines. Columns that dlock only prints have default values.
pub(crate) fn record(view_of_row: RowView) -> LockRecord {
    LockRecord {
        pause: (view_of_row.paused > 0).then(|| {
            Box::new(Pause {
                until: String::new(),
                left: ticks(view_of_row.paused),
            })
        }),
        slots: view_of_row.slots.into_iter().flatten().map(slot).collect(),
        ..LockRecord::never_held("a".parse().expect("a name")).with_lease(|lease| {
            lease.owner_id = view_of_row.owner_id.map(owner_id_of_number);
            lease.version = Version {
                token: Token(view_of_row.token.into()),
                renewals: view_of_row.renewals.into(),
            };
            lease.holder = Holder::default();
            lease.ttl = match view_of_row.owner_id {
                Some(SHARED) => Duration::MAX / 4,
                _ => ticks(TTL),
            };
            lease.expiry = expiry(view_of_row.left);
            lease.had_queue_lock_here = view_of_row.has_queue_lock;
            lease.revoked_ago = view_of_row.revoked.then_some(Duration::ZERO);
        })
    }
}

fn slot(view: SlotView) -> Slot {
    let lease = LockRecord::never_held("a".parse().expect("a name")).with_lease(|lease| {
        lease.owner_id = Some(owner_id_of_number(view.owner_id));
        lease.version = Version {
            token: Token(view.token.into()),
            renewals: view.renewals.into(),
        };
        lease.ttl = ticks(TTL);
        lease.expiry = expiry(view.left);
        lease.had_queue_lock_here = view.had_lock;
        lease.session_alive = view.alive;
        lease.revoked_ago = view.revoked.then_some(Duration::ZERO);
    });
    Slot {
        number: view.number,
        limit: view.limit,
        lease: lease.lease,
        sessions: None,
    }
}

fn expiry(left: i8) -> Expiry {
    match left {
        0.. => Expiry::In(ticks(left.unsigned_abs())),
        _ => Expiry::Ago(ticks(left.unsigned_abs())),
    }
}

fn queue_state(view_of_row: RowView) -> QueueState {
    QueueState {
        lock_owner: view_of_row.lock_owner,
        ahead: view_of_row.ahead.into(),
        is_behind_other: view_of_row.behind.poller,
        is_behind_mark: view_of_row.behind.mark,
        head_waiting_for: None,
        database: Some(DatabaseId(view_of_row.database.into())),
    }
}
