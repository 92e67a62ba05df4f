//! Tests of an acquisition whose requests fail: how long the acquisition retries, and which failures end it.

use std::time::Duration;

use super::super::{Acquire, NextRequest, NotGranted};
use super::{
    LEFT, START, acquisition, failure, first_attempt, queue_state, record, secs,
    send_first_attempt, timed_response,
};
use crate::store::{FailureKind, QueueLockOwner, Request};

/// Responds to every request with a failure of `kind` until the acquisition ends or `most` has passed. Returns the
/// times of all requests and of the end.
fn fail_on(acquire: &mut Acquire, kind: FailureKind, most: Duration) -> (Vec<Duration>, Duration) {
    let mut now = START;
    let mut tries = Vec::new();
    while now.since(START) < most {
        match acquire.next(now) {
            NextRequest::Send(_) => {
                tries.push(now.since(START));
                acquire.handle_response(now, &timed_response(now, failure(kind)));
            }
            NextRequest::Wait(until) => now = until,
            NextRequest::NotGranted(NotGranted::Unreachable(Some(_))) => break,
            other => panic!("unexpected: {other:?}"),
        }
    }
    (tries, now.since(START))
}

#[test]
fn unreachable_server_is_retried_until_the_connect_limit() {
    let (tries, waited) = fail_on(&mut acquisition(None), FailureKind::Unreachable, secs(200));
    assert_eq!(waited, secs(60));
    assert!(tries.len() > 25, "{tries:?}");
    let last = Duration::from_millis(59_750);
    assert!(tries.contains(&last), "{tries:?}");
}

#[test]
fn full_server_is_retried_until_the_wait_limit() {
    let (_, waited) = fail_on(
        &mut acquisition(None),
        FailureKind::TooManyConnections,
        secs(200),
    );
    assert!(waited >= secs(200), "{waited:?}");
    let (_, waited) = fail_on(
        &mut acquisition(Some(secs(90))),
        FailureKind::TooManyConnections,
        secs(200),
    );
    assert_eq!(waited, secs(90));
}

#[test]
fn refusal_ends_the_acquisition_immediately() {
    let mut acquire = acquisition(None);
    send_first_attempt(&mut acquire);
    acquire.handle_response(START, &timed_response(START, failure(FailureKind::Denied)));
    assert!(matches!(
        acquire.next(START),
        NextRequest::NotGranted(NotGranted::Refused(_))
    ));
}

#[test]
fn refused_login_is_retried_only_after_an_earlier_response() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 0));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    assert!(matches!(
        acquire.next(START),
        NextRequest::Send(Request::WaitTurn(_))
    ));
    acquire.handle_response(
        START,
        &timed_response(START, failure(FailureKind::LoginRefused)),
    );
    assert!(matches!(acquire.next(START), NextRequest::Wait(_)));
    let mut newcomer = acquisition(None);
    send_first_attempt(&mut newcomer);
    newcomer.handle_response(
        START,
        &timed_response(START, failure(FailureKind::LoginRefused)),
    );
    assert!(matches!(
        newcomer.next(START),
        NextRequest::NotGranted(NotGranted::Refused(_))
    ));
}
