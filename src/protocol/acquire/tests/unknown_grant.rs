//! Tests of grants at an unknown time. Such a grant counts only after a renewal confirms it; otherwise the lease is
//! released.

use std::time::Duration;

use super::super::{Acquire, NextRequest, NotGranted};
use super::{
    LEFT, OWN_ID, START, acquisition, failure, queue_state, record, secs, send_first_attempt,
    timed_response, until_attempt,
};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::store::{
    EarlierSessions, FailureKind, QueueLock, QueueLockOwner, Request, Response, Success,
};

/// Fails the first attempt with `kind` at `at`, and responds to the second attempt with `AlreadyHeld`. Returns the time
/// of the second response.
fn unknown_grant(acquire: &mut Acquire, kind: FailureKind, at: BootInstant) -> BootInstant {
    send_first_attempt(acquire);
    acquire.handle_response(at, &timed_response(START, failure(kind)));
    assert!(acquire.release_request().is_some(), "{kind:?}");
    let (at, _) = until_attempt(acquire, at, &|_| unreachable!());
    acquire.handle_response(
        at,
        &timed_response(at, Ok(Response::AlreadyHeld(Token(5), 1))),
    );
    at
}

const SENT: [FailureKind; 6] = [
    FailureKind::Unreachable,
    FailureKind::TooManyConnections,
    FailureKind::Conflict,
    FailureKind::Unknown,
    FailureKind::NoTables,
    FailureKind::NoQueueLock,
];

#[test]
fn grant_at_an_unknown_time_is_confirmed_by_a_renewal() {
    for kind in SENT {
        let mut acquire = acquisition(None);
        let at = unknown_grant(&mut acquire, kind, START + secs(2));
        assert!(matches!(
            acquire.next(at),
            NextRequest::Send(Request::Renew(request)) if request.grant.token == Token(5)
        ));
        acquire.handle_response(at, &timed_response(at, Ok(Response::Renewed(None))));
        assert!(matches!(acquire.next(at), NextRequest::Granted(lease) if lease.sent == at));
    }
}

#[test]
fn grant_that_may_have_expired_is_released_and_tried_again() {
    for (failed, confirmed) in [(secs(29), secs(29)), (secs(2), secs(30))] {
        let mut acquire = acquisition(None);
        unknown_grant(&mut acquire, FailureKind::Unknown, START + failed);
        let mut now = START + confirmed;
        if failed < confirmed {
            // The confirmation gets no response before the lease expires.
            assert!(matches!(
                acquire.next(START + secs(3)),
                NextRequest::Send(Request::Renew(..))
            ));
            acquire.handle_response(now, &timed_response(now, failure(FailureKind::Unknown)));
        }
        let request = loop {
            match acquire.next(now) {
                NextRequest::Send(Request::Release(request)) => break request,
                NextRequest::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
        };
        assert_eq!((request.owner_id, request.token), (OWN_ID, Some(Token(5))));
        acquire.handle_response(now, &timed_response(now, Ok(Response::Released)));
        let (at, _) = until_attempt(&mut acquire, now, &|_| unreachable!());
        acquire.handle_response(
            at,
            &timed_response(
                at,
                Ok(Response::Granted(Token(6), 1, EarlierSessions::None)),
            ),
        );
        assert!(
            matches!(acquire.next(at), NextRequest::Granted(lease) if lease.grant.token == Token(6))
        );
    }
}

#[test]
fn confirmation_without_a_response_ends_at_the_wait_limit() {
    for (wait, connect, most) in [
        (Some(secs(0)), 60, Duration::from_millis(300)),
        (Some(secs(1)), 60, Duration::from_millis(1_050)),
        (None, 1, Duration::from_millis(1_050)),
        (None, 60, secs(30)),
    ] {
        let mut acquire = acquisition(wait);
        acquire.time.limits.connect = secs(connect);
        let confirming_since = unknown_grant(&mut acquire, FailureKind::Unknown, START);
        let mut now = confirming_since;
        let mut in_flight = false;
        let end = loop {
            match acquire.next(now) {
                NextRequest::Send(Request::Renew(..)) => in_flight = true,
                NextRequest::Wait(until) => now = until,
                end => break end,
            }
            if in_flight && now.since(confirming_since) >= secs(29) {
                // The request times out in the database thread.
                in_flight = false;
                acquire.handle_response(now, &timed_response(now, failure(FailureKind::Unknown)));
            }
        };
        match (wait, connect) {
            (None, 60) => assert!(
                matches!(end, NextRequest::Send(Request::Release(_))),
                "{end:?}"
            ),
            _ => assert!(
                matches!(end, NextRequest::NotGranted(NotGranted::Unreachable(_))),
                "{end:?}"
            ),
        }
        assert!(
            now.since(confirming_since) <= most,
            "{wait:?}: {:?}",
            now.since(confirming_since)
        );
        assert!(acquire.release_request().is_some());
    }
}

#[test]
fn revoked_own_record_is_freed_and_retried_at_a_limited_rate() {
    let mut acquire = acquisition(None);
    let revoked = record(0, LEFT).with_lease(|lease| {
        lease.owner_id = Some(OWN_ID);
        lease.revoked_ago = Some(secs(1));
    });
    send_first_attempt(&mut acquire);
    let (mut now, mut requests, mut released) = (START, 0, 0);
    acquire.handle_response(now, &timed_response(now, failure(FailureKind::Unknown)));
    // This server returns the revoked record again after every release.
    while now.since(START) < secs(10) {
        match acquire.next(now) {
            NextRequest::Send(request) => {
                requests += 1;
                let response = match request {
                    Request::Release(request) => {
                        assert_eq!(request.token, Some(Token(17)));
                        released += 1;
                        Response::Released
                    }
                    Request::TryAcquire(_) => {
                        Response::NotAcquired(revoked.clone(), queue_state(QueueLockOwner::Own, 0))
                    }
                    other => panic!("unexpected: {other:?}"),
                };
                acquire.handle_response(now, &timed_response(now, Ok(response)));
            }
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert!(released > 0);
    assert!(
        requests <= 50,
        "{requests} requests of up to two packets in 10 s"
    );
}

#[test]
fn grant_with_a_late_response_is_confirmed_before_it_counts() {
    let mut acquire = acquisition(None);
    send_first_attempt(&mut acquire);
    let late = START + secs(25);
    acquire.handle_response(
        late,
        &timed_response(
            START,
            Ok(Response::Granted(Token(5), 1, EarlierSessions::None)),
        ),
    );
    assert!(matches!(
        acquire.next(late),
        NextRequest::Send(Request::Renew(..))
    ));
}

/// A success that is recorded between the read of an attempt and its grant makes the run unnecessary.
#[test]
fn lease_is_released_before_the_run_counts_as_done() {
    let success = Success {
        token: Token(4),
        holder: "another".to_owned(),
        at: String::new(),
        ago: Duration::ZERO,
    };
    let mut acquire = acquisition(None);
    send_first_attempt(&mut acquire);
    let held = Response::HeldThoughDone(Token(5), success.clone());
    acquire.handle_response(START, &timed_response(START, Ok(held)));
    let mut now = START;
    for outcome in [failure(FailureKind::Unknown), Ok(Response::Released)] {
        let request = loop {
            match acquire.next(now) {
                NextRequest::Send(Request::Release(request)) => break request,
                NextRequest::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
        };
        assert_eq!((request.token, request.run), (Some(Token(5)), None));
        // The next waiter must read the success too.
        assert_eq!(request.queue_lock, QueueLock::Available);
        assert!(
            acquire.release_request().is_some(),
            "the lease is still held"
        );
        acquire.handle_response(now, &timed_response(now, outcome));
    }
    assert!(
        matches!(acquire.next(now), NextRequest::NotGranted(NotGranted::AlreadyDone(done)) if done == success)
    );
    assert!(acquire.release_request().is_none());
}
