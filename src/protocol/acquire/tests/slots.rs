//! Tests of the head of the queue while all slots are held.

use super::super::NextRequest;
use super::{LEFT, START, acquisition, queue_state, record, respond, secs, timed_response};
use crate::lease::OwnerId;
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::store::{AcquireMode, LockRecord, QueueLockOwner, QueueState, Request, Response, Slot};

/// Returns the record with shared holders, one for each state of a session.
fn shared(sessions: &[Option<bool>]) -> LockRecord {
    let slots = sessions.iter().zip(1..).map(|(alive, number)| {
        let slot = record(4, LEFT).with_lease(|lease| {
            lease.session_alive = *alive;
            lease.version.token.0 += u64::from(number);
        });
        Slot {
            number,
            limit: Limit::NONE,
            lease: slot.lease,
            sessions: None,
        }
    });
    LockRecord {
        slots: slots.collect(),
        ..record(0, LEFT).with_lease(|lease| lease.owner_id = Some(OwnerId::SHARED))
    }
}

/// Returns the requests of an exclusive contender, the head of the queue, until `count` of them are sent.
fn requests(record: &LockRecord, count: usize) -> Vec<Request> {
    let server = |_: BootInstant| -> (LockRecord, QueueState) {
        (record.clone(), queue_state(QueueLockOwner::Own, 0))
    };
    let (mut acquire, mut now) = (acquisition(None), START);
    let mut sent = Vec::new();
    while sent.len() < count {
        match acquire.next(now) {
            NextRequest::Send(request) => {
                match &request {
                    Request::TryAcquire(_) | Request::WaitTurn(_) => {
                        let (record, queue) = server(now);
                        let response = Response::NotAcquired(record, queue);
                        acquire.handle_response(now, &timed_response(now, Ok(response)));
                    }
                    _ => respond(&mut acquire, now, &server, &request),
                }
                sent.push(request);
            }
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
        assert!(now.since(START) < secs(300), "{sent:?}");
    }
    sent
}

fn is_wait_for_room(request: &Request) -> bool {
    matches!(request, Request::WaitTurn(turn) if turn.room.is_some())
}

#[test]
fn head_waits_on_the_server_and_sends_no_reads() {
    for holders in [1, 3] {
        let requests = requests(&shared(&vec![Some(true); holders]), 12);
        let reads = requests
            .iter()
            .filter(|it| matches!(it, Request::GetWithQueue(_)));
        assert_eq!(reads.count(), 0, "{requests:?}");
        let room = requests.iter().find_map(|request| match request {
            Request::WaitTurn(turn) => turn.room,
            _ => None,
        });
        let room = room.expect("a wait for room");
        assert_eq!(room.holder.is_some(), holders == 1, "{room:?}");
        assert_eq!((room.holders as usize, room.without_lock), (holders, 0));
        assert!(room.longest > secs(1), "{room:?}");
    }
}

/// An exclusive contender cannot be granted a lease before a holder whose release the server does not show.
#[test]
fn holder_without_a_lock_is_read_again_and_again() {
    let requests = requests(&shared(&[Some(true), None]), 12);
    assert!(!requests.iter().any(is_wait_for_room), "{requests:?}");
}

/// A release gives up the holder lock before its commit.
#[test]
fn lost_holder_lock_leads_to_one_attempt_at_once() {
    let requests = requests(&shared(&[Some(false)]), 12);
    let attempts = requests.iter().filter(|request| {
        matches!(request, Request::TryAcquire(attempt)
            if matches!(attempt.mode, AcquireMode::AmongSlots { dead: None, .. }))
    });
    assert_eq!(attempts.count(), 1, "{requests:?}");
}
