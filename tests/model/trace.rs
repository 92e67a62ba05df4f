//! The lines of a scenario: the requests, the responses and the notices of a run. The checker records no lines.

use std::cell::RefCell;

use dlock::protocol::keeper::Notice;
use dlock::store::{AcquireMode, Failure, NotePlace, Request, Response};

thread_local! {
    /// The lines since the last call of [`take`]. None if nothing is traced.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

pub(crate) fn start() {
    LINES.set(Some(Vec::new()));
}

/// Returns the lines since the last call.
pub(crate) fn take() -> Vec<String> {
    LINES.with_borrow_mut(|lines| lines.as_mut().map(std::mem::take).unwrap_or_default())
}

/// Adds a line if this thread is traced.
pub(crate) fn add(line: impl FnOnce() -> String) {
    LINES.with_borrow_mut(|lines| {
        if let Some(lines) = lines {
            lines.push(line());
        }
    });
}

pub(crate) fn request(request: &Request) -> &'static str {
    match request {
        Request::TryAcquire(request) => match request.mode {
            AcquireMode::First | AcquireMode::IfFree => "try to acquire",
            AcquireMode::TakeOver { .. } => "take over",
            AcquireMode::AmongSlots { dead: None, .. } => "try to acquire a slot",
            AcquireMode::AmongSlots { .. } => "take over a slot",
        },
        Request::GetWithQueue(_) => "read the record and the queue",
        Request::Get => "read the record",
        Request::GetNote(_) => "read the noted sessions",
        Request::RemoveNote(_) => "remove a note",
        Request::Enqueue(_) => "enter the queue",
        Request::WaitTurn(turn) if turn.room.is_some() => "wait for room, then try to acquire",
        Request::WaitTurn(_) => "wait for the queue lock, then try to acquire",
        Request::Renew(request) if request.reassertion.is_some() => "write the grant again",
        Request::Renew(_) => "renew",
        Request::EndSessions(request) if request.kill => "kill the sessions",
        Request::EndSessions(_) => "look for the sessions",
        Request::HandOff(_) => "hand off",
        Request::Release(_) => "release",
    }
}

pub(crate) fn response(outcome: &Result<Response, Failure>) -> String {
    match outcome {
        Ok(Response::Granted(token, ..)) => format!("granted, token {token}"),
        Ok(Response::AlreadyHeld(token, _)) => format!("already held, token {token}"),
        Ok(Response::NotAcquired(record, _)) if record.lease.owner_id.is_some() => {
            "held".to_owned()
        }
        Ok(Response::NotAcquired(..)) => "not acquired".to_owned(),
        Ok(Response::Note(Some(noted))) => match noted.place {
            NotePlace::Own => "sessions are noted in the own row".to_owned(),
            NotePlace::Record => "sessions are noted in the record".to_owned(),
            NotePlace::Slot(number) => format!("sessions are noted in slot {number}"),
        },
        Ok(Response::Note(None)) => "no sessions are noted".to_owned(),
        Ok(Response::NoteRemoved) => "the note is removed".to_owned(),
        Ok(Response::Enqueued(..)) => "in the queue".to_owned(),
        Ok(Response::HasLetPass(_)) => "let another one pass".to_owned(),
        Ok(Response::Renewed(_)) => "renewed".to_owned(),
        Ok(Response::Sessions(left)) if left.found.listed.is_empty() => {
            "no session is left".to_owned()
        }
        Ok(Response::Sessions(_)) => "sessions are left".to_owned(),
        Ok(Response::Lost(record)) if record.lease.owner_id.is_none() => {
            "not the holder, nobody is".to_owned()
        }
        Ok(Response::HandedOff) => "handed off".to_owned(),
        Ok(Response::Released) => "released".to_owned(),
        Ok(Response::Lost(_) | Response::NotHolder(_)) => "not the holder".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(_) => "no response".to_owned(),
    }
}

pub(crate) fn notice(notice: &Notice) -> String {
    let text = format!("{notice:?}");
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    match notice {
        Notice::Lost(loss, _) => format!("Lost({loss:?})"),
        Notice::Released(released) => format!("Released({released:?})"),
        Notice::SessionsEnded(owner, killed) => {
            format!("SessionsEnded({owner:?}, {killed} killed)")
        }
        _ => text[..end].to_owned(),
    }
}
