//! Tests of an acquisition whose named lock is owned by a foreign session or does not work, or whose connection is
//! lost.

use std::time::Duration;

use super::super::NextRequest;
use super::{
    LEFT, START, acquisition, failure, first_attempt, queue_state, record, respond, secs,
    send_first_attempt, taken_over, timed_response, until_attempt,
};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::store::{
    EarlierSessions, Expiry, FailureKind, LockRecord, QueueLock, QueueLockOwner, QueueState,
    Request, Response, TimedResponse,
};

#[test]
fn queue_lock_with_foreign_owner_or_without_grant_is_disabled() {
    for lock_owner in [QueueLockOwner::Foreign, QueueLockOwner::Free] {
        let server = |_| {
            (
                LockRecord::never_held("init".parse().expect("a valid action")),
                queue_state(lock_owner, 0),
            )
        };
        let mut acquire = acquisition(Some(Duration::ZERO));
        first_attempt(&mut acquire, &server);
        let mut now = START;
        let request = loop {
            let (at, request) = until_attempt(&mut acquire, now, &server);
            now = at;
            if request.queue_lock == QueueLock::Unavailable {
                break request;
            }
            let (record, queue_state) = server(now);
            acquire.handle_response(
                now,
                &timed_response(now, Ok(Response::NotAcquired(record, queue_state))),
            );
        };
        assert_eq!(taken_over(&request), None);
        assert!(now.since(START) < Duration::from_millis(200));
        acquire.handle_response(
            now,
            &timed_response(
                now,
                Ok(Response::Granted(Token(1), 1, EarlierSessions::None)),
            ),
        );
        assert!(
            matches!(acquire.next(now), NextRequest::Granted(lease) if lease.queue_lock == QueueLock::Unavailable)
        );
    }
}

#[test]
fn wait_behind_a_foreign_session_lasts_at_most_a_ttl() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Foreign, 0));
    for (wait, expected) in [(None, 30), (Some(secs(200)), 30), (Some(secs(20)), 10)] {
        let mut acquire = acquisition(wait);
        first_attempt(&mut acquire, &server);
        let (mut now, mut waits) = (START, Vec::new());
        while acquire.queue_lock() == QueueLock::Available {
            match acquire.next(now) {
                NextRequest::Send(Request::WaitTurn(turn)) => {
                    let limit = turn.limit.expect("a wait limit");
                    waits.push(limit);
                    now = now + limit;
                    acquire.handle_response(now, &timed_response(now, Ok(Response::WaitEnded)));
                }
                NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
                NextRequest::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(waits, [secs(expected)]);
    }
}

#[test]
fn wait_behind_a_foreign_session_that_becomes_holder_is_unlimited() {
    let server = |now: BootInstant| {
        let lock_owner = match now.since(START) < secs(2) {
            true => QueueLockOwner::Foreign,
            false => QueueLockOwner::Known,
        };
        (record(0, LEFT), queue_state(lock_owner, 0))
    };
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let (mut now, mut limits) = (START, Vec::new());
    while limits.len() < 2 {
        match acquire.next(now) {
            NextRequest::Send(Request::WaitTurn(turn)) => {
                limits.push(turn.limit);
                now = now + secs(3);
                acquire.handle_response(now, &timed_response(now, failure(FailureKind::Unknown)));
            }
            NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(limits, [Some(secs(30)), None]);
}

#[test]
fn queue_lock_that_is_granted_without_effect_is_disabled() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 0));
    for response in [
        Response::WaitEnded,
        Response::NotAcquired(record(0, LEFT), queue_state(QueueLockOwner::Known, 0)),
    ] {
        let mut acquire = acquisition(None);
        first_attempt(&mut acquire, &server);
        let (mut now, mut waits) = (START, 0);
        while acquire.queue_lock() == QueueLock::Available {
            match acquire.next(now) {
                NextRequest::Send(Request::WaitTurn(_)) => {
                    waits += 1;
                    acquire.handle_response(now, &timed_response(now, Ok(response.clone())));
                }
                NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
                NextRequest::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
            assert!(waits < 10, "too many waits for the queue lock");
        }
    }
}

#[test]
fn without_a_queue_lock_later_pollers_try_after_head_priority() {
    let free = |ahead: u64| {
        move |now: BootInstant| {
            let record = match now.since(START) < secs(10) {
                true => record(0, Expiry::In(secs(25))),
                false => record(0, LEFT).with_lease(|lease| lease.owner_id = None),
            };
            (record, queue_state(QueueLockOwner::NotQueried, ahead))
        }
    };
    for (ahead, least, most) in [(0, 10.0, 11.3), (2, 13.0, 18.0)] {
        let server = free(ahead);
        let mut acquire = acquisition(None);
        send_first_attempt(&mut acquire);
        // A single refusal does not prove that named locks do not work.
        let mut refused = START;
        for _ in 0..3 {
            assert_eq!(acquire.queue_lock(), QueueLock::Available);
            acquire.handle_response(
                refused,
                &timed_response(refused, failure(FailureKind::NoQueueLock)),
            );
            (refused, _) = until_attempt(&mut acquire, refused, &server);
        }
        assert_eq!(acquire.queue_lock(), QueueLock::Unavailable);
        let (record, queue_state) = server(refused);
        acquire.handle_response(
            refused,
            &timed_response(refused, Ok(Response::NotAcquired(record, queue_state))),
        );
        let (at, _) = until_attempt(&mut acquire, refused, &server);
        let waited = at.since(START).as_secs_f64();
        assert!(waited >= least && waited < most, "{ahead} ahead: {waited}");
    }
}

#[test]
fn waiter_that_lost_its_connection_waits_again_with_its_queue_entry() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 3));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    for round in 1..4 {
        let now = START + secs(20 * round);
        assert!(matches!(
            acquire.next(now),
            NextRequest::Send(Request::WaitTurn(_))
        ));
        acquire.handle_response(now, &timed_response(now, failure(FailureKind::Unknown)));
        assert!(
            acquire
                .release_request()
                .is_some_and(|request| request.has_entry)
        );
        // The failed request may have acquired the lease, so the next request is an attempt.
        let later = now + secs(5);
        assert!(matches!(
            acquire.next(later),
            NextRequest::Send(Request::TryAcquire(_))
        ));
        let held = Response::NotAcquired(record(0, LEFT), queue_state(QueueLockOwner::Known, 3));
        acquire.handle_response(later, &timed_response(later, Ok(held)));
    }
}

#[test]
fn queue_lock_is_tried_again_after_a_foreign_session_has_kept_it() {
    for later in [QueueLockOwner::Known, QueueLockOwner::Free] {
        try_again_after_a_foreign_session(later);
    }
}

fn try_again_after_a_foreign_session(later: QueueLockOwner) {
    let server = |now: BootInstant| {
        let lock_owner = match now.since(START) < secs(100) {
            true => QueueLockOwner::Foreign,
            false => later,
        };
        (record(0, LEFT), queue_state(lock_owner, 0))
    };
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let (mut now, mut limits, mut polled) = (START, Vec::new(), false);
    while limits.last() != Some(&None) {
        polled |= acquire.retries_queue_lock();
        match acquire.next(now) {
            NextRequest::Send(Request::WaitTurn(turn)) => {
                limits.push(turn.limit);
                now = now + turn.limit.unwrap_or_default();
                acquire.handle_response(now, &timed_response(now, Ok(Response::WaitEnded)));
            }
            NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
        assert!(now.since(START) < secs(140), "the queue lock is not tried");
    }
    // Only the first time, the contender waits behind the foreign session and does not poll.
    assert_eq!(limits, [Some(secs(30)), None]);
    assert!(polled);
}

/// Returns the waits of a contender in 25 s, in which it owns the queue lock. The value is true for a wait in which it lets
/// earlier waiters pass.
fn waits_as_queue_head(is_behind_mark: bool) -> Vec<bool> {
    let server = |_| {
        let queue = QueueState {
            is_behind_mark,
            ..queue_state(QueueLockOwner::Own, 1)
        };
        (record(0, LEFT), queue)
    };
    let mut acquire = acquisition(None);
    let known = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 1));
    first_attempt(&mut acquire, &known);
    let (mut now, mut waits) = (START, Vec::new());
    while now.since(START) < secs(25) {
        match acquire.next(now) {
            NextRequest::Send(Request::WaitTurn(turn)) => {
                waits.push(turn.lets_pass);
                let (record, queue) = server(now);
                let response = Ok(Response::NotAcquired(record, queue));
                acquire.handle_response(now, &timed_response(now, response));
            }
            NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    waits
}

#[test]
fn queue_head_lets_others_pass_only_if_an_earlier_waiter_waits_again() {
    assert_eq!(waits_as_queue_head(false), [false]);
    assert_eq!(waits_as_queue_head(true), [false, true, true, true]);
}

#[test]
fn waiter_that_has_let_another_one_pass_waits_again_at_once() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 1));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    for (let_pass, next) in [(0, 7), (7, 9)] {
        let NextRequest::Send(Request::WaitTurn(turn)) = acquire.next(START) else {
            panic!("no wait after a pass");
        };
        assert_eq!((turn.let_pass, turn.lets_pass), (let_pass, false));
        let passed = Ok(Response::HasLetPass(next));
        acquire.handle_response(START, &timed_response(START, passed));
    }
}

#[test]
fn waits_are_shorter_than_the_silence_after_which_connections_end() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 0));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let (mut now, mut limits) = (START, Vec::new());
    while limits.len() < 6 {
        match acquire.next(now) {
            NextRequest::Send(Request::WaitTurn(turn)) => {
                let sent = now;
                limits.push(turn.limit);
                // The server waits for whole seconds.
                now = now
                    + turn
                        .limit
                        .map_or(secs(10), |limit| secs(limit.as_secs() + 1));
                let response = match turn.limit {
                    None => failure(FailureKind::Unknown),
                    Some(_) => Ok(Response::WaitEnded),
                };
                let response = TimedResponse {
                    received: now,
                    ..timed_response(sent, response)
                };
                acquire.handle_response(now, &response);
            }
            NextRequest::Send(request) => respond(&mut acquire, now, &server, &request),
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    let slice = Some(Duration::from_millis(4999));
    assert_eq!(limits, [None, None, slice, slice, slice, slice]);
    assert_eq!(acquire.queue_lock(), QueueLock::Available);
}
