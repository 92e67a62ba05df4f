//! Tests of a contender whose database has lost the latest writes, as after a fail-over to an older replica.

use super::super::{Acquire, NextRequest};
use super::{
    LEFT, OWN_ID, START, acquisition, failure, first_attempt, queue_state, record, secs,
    send_first_attempt, timed_response, until_attempt,
};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::{OwnerId, Token};
use crate::store::{
    AcquireMode, DatabaseId, Expiry, FailureKind, LockRecord, QueueLockOwner, QueueState, Request,
    Response, Slot, Version,
};

/// Returns the record of a free action with this token.
fn free(token: u64) -> LockRecord {
    record(0, LEFT).with_lease(|lease| {
        lease.owner_id = None;
        lease.version = Version {
            token: Token(token),
            renewals: 0,
        };
    })
}

fn queue_of(database: u64, lock_owner: QueueLockOwner) -> QueueState {
    QueueState {
        database: Some(DatabaseId(database)),
        ..queue_state(lock_owner, 0)
    }
}

/// A server on which an earlier state of the record, or another database, appears after 4 s.
fn fails_over(
    later: LockRecord,
    database: u64,
) -> impl Fn(BootInstant) -> (LockRecord, QueueState) {
    move |now| match now.since(START) < secs(4) {
        true => (record(3, LEFT), queue_of(1, QueueLockOwner::Own)),
        false => (later.clone(), queue_of(database, QueueLockOwner::Own)),
    }
}

#[test]
fn older_record_or_another_database_delays_the_attempt_by_a_ttl() {
    let renewed_less = record(2, Expiry::Ago(secs(60)));
    for (later, database) in [
        (free(16), 1),
        (renewed_less, 1),
        (free(17), 2),
        (free(18), 2),
    ] {
        let highest = later.lease.version.token.max(Token(17));
        let server = fails_over(later, database);
        let mut acquire = acquisition(None);
        first_attempt(&mut acquire, &server);
        let (at, request) = until_attempt(&mut acquire, START, &server);
        let waited = at.since(START);
        assert!(waited >= secs(34) && waited < secs(37), "{waited:?}");
        let last_read = request.last_read.expect("the record was read");
        assert_eq!(last_read.database, Some(DatabaseId(database)));
        assert_eq!(last_read.highest_token, highest);
        assert!(last_read.version <= server(at).0.lease.version);
    }
}

#[test]
fn newer_record_of_the_same_database_delays_nothing() {
    for (token, renewals) in [(17, 4), (18, 0)] {
        let version = Version {
            token: Token(token),
            renewals,
        };
        let server = fails_over(free(0).with_lease(|lease| lease.version = version), 1);
        let mut acquire = acquisition(None);
        first_attempt(&mut acquire, &server);
        let (at, _) = until_attempt(&mut acquire, START, &server);
        assert!(at.since(START) < secs(6), "{:?}", at.since(START));
    }
}

/// Passes the response to a read on another connection, which returned `later` of `database` at `now`.
fn read_elsewhere(acquire: &mut Acquire, now: BootInstant, later: LockRecord, database: u64) {
    let queue = queue_of(database, QueueLockOwner::Known);
    let response = Response::NotAcquired(later, queue);
    acquire.handle_read(&timed_response(now, Ok(response)));
}

#[test]
fn older_record_than_a_reminder_has_read_delays_the_attempt() {
    for (database, is_delayed) in [(1, true), (2, false)] {
        let version = Version {
            token: Token(17),
            renewals: 4,
        };
        let server = fails_over(free(0).with_lease(|lease| lease.version = version), 1);
        let mut acquire = acquisition(None);
        first_attempt(&mut acquire, &server);
        read_elsewhere(&mut acquire, START + secs(3), free(18), database);
        let (at, _) = until_attempt(&mut acquire, START + secs(3), &server);
        let waited = at.since(START);
        assert_eq!(waited >= secs(33), is_delayed, "{database}: {waited:?}");
    }
}

#[test]
fn record_that_was_requested_before_a_reminder_read_a_newer_one_delays_nothing() {
    let server = fails_over(free(18), 1);
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let NextRequest::Send(_) = acquire.next(START + secs(1)) else {
        panic!("the queue head reads nothing")
    };
    read_elsewhere(&mut acquire, START + secs(2), record(9, LEFT), 1);
    let late = Response::NotAcquired(record(8, LEFT), queue_of(1, QueueLockOwner::Own));
    acquire.handle_response(START + secs(3), &timed_response(START + secs(1), Ok(late)));
    let (at, _) = until_attempt(&mut acquire, START + secs(4), &server);
    assert!(at.since(START) < secs(7), "{:?}", at.since(START));
}

#[test]
fn waiter_keeps_its_turn_without_an_attempt_while_a_lost_lease_may_be_live() {
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &|_| {
        (record(3, LEFT), queue_of(1, QueueLockOwner::Known))
    });
    let NextRequest::Send(Request::WaitTurn(turn)) = acquire.next(START) else {
        panic!("the contender does not wait")
    };
    assert!(turn.may_acquire);
    assert_eq!(
        turn.last_read.and_then(|last| last.database),
        Some(DatabaseId(1))
    );
    // The server dies, and another one has the record of an earlier time.
    let lost = timed_response(START, failure(FailureKind::Unreachable));
    acquire.handle_response(START, &lost);
    let now = START + secs(5);
    assert!(matches!(
        acquire.next(now),
        NextRequest::Send(Request::TryAcquire(_))
    ));
    let answer = |lock_owner| Response::NotAcquired(free(16), queue_of(2, lock_owner));
    acquire.handle_response(now, &timed_response(now, Ok(answer(QueueLockOwner::Free))));
    let NextRequest::Send(Request::WaitTurn(turn)) = acquire.next(now) else {
        panic!("the contender does not take the queue lock")
    };
    assert!(!turn.may_acquire);
    acquire.handle_response(now, &timed_response(now, Ok(answer(QueueLockOwner::Own))));
    let server = |_| (free(16), queue_of(2, QueueLockOwner::Own));
    let (at, request) = until_attempt(&mut acquire, now, &server);
    assert!(at.since(now) >= secs(30), "{:?}", at.since(now));
    assert_eq!(
        request.last_read.map(|last| last.highest_token),
        Some(Token(17))
    );
}

#[test]
fn earlier_lease_of_this_process_is_freed_if_it_appears_again() {
    let mut acquire = acquisition(None);
    send_first_attempt(&mut acquire);
    let held = Response::NotAcquired(record(3, LEFT), queue_of(1, QueueLockOwner::Known));
    acquire.handle_response(START, &timed_response(START, Ok(held)));
    assert!(matches!(
        acquire.next(START),
        NextRequest::Send(Request::WaitTurn(_))
    ));
    acquire.handle_response(START, &timed_response(START, failure(FailureKind::Unknown)));
    let now = START + secs(5);
    assert!(matches!(
        acquire.next(now),
        NextRequest::Send(Request::TryAcquire(_))
    ));
    acquire.handle_response(
        now,
        &timed_response(now, Ok(Response::AlreadyHeld(Token(12), 1))),
    );
    let NextRequest::Send(Request::Release(request)) = acquire.next(now) else {
        panic!("the lease is not freed")
    };
    assert_eq!((request.owner_id, request.token), (OWN_ID, Some(Token(12))));
    acquire.handle_response(now, &timed_response(now, Ok(Response::Released)));
    let server = |_| (free(12), queue_of(1, QueueLockOwner::Own));
    let (at, _) = until_attempt(&mut acquire, now, &server);
    assert!(at.since(now) >= secs(30), "{:?}", at.since(now));
}

/// A restored table may have lost only renewals of a lease in a slot. Its holder then believes in a later deadline.
#[test]
fn slot_with_fewer_renewals_than_before_delays_the_attempt() {
    let server = |now: BootInstant| {
        let (renewals, expiry, session_alive) = match now < START + secs(3) {
            true => (4, LEFT, None),
            false => (1, Expiry::Ago(secs(10)), Some(false)),
        };
        let slot = record(renewals, expiry).with_lease(|lease| lease.session_alive = session_alive);
        let shared = record(0, LEFT).with_lease(|lease| lease.owner_id = Some(OwnerId::SHARED));
        let shared = LockRecord {
            slots: vec![Slot {
                number: 1,
                limit: Limit::NONE,
                lease: slot.lease,
                sessions: None,
            }],
            ..shared
        };
        (shared, queue_of(1, QueueLockOwner::Own))
    };
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let (at, request) = until_attempt(&mut acquire, START, &server);
    assert!(at.since(START) >= secs(33), "{:?}", at.since(START));
    assert!(matches!(
        request.mode,
        AcquireMode::AmongSlots {
            dead: Some((1, _)),
            ..
        }
    ));
}
