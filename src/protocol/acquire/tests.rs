//! Unit tests of the acquisition. A closure acts as the server, and each test passes the current instant as a value.

mod failures;
mod lost_grant;
mod named_locks;
mod slots;
mod unknown_grant;

use std::time::Duration;

use super::{Acquire, NextRequest, NotGranted, WaitLimits};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{OwnerId, Token};
use crate::store::{
    AcquireMode, AcquireRequest, EarlierSessions, Expiry, Failure, FailureKind, Holder, LockRecord,
    QueueLock, QueueLockOwner, QueueState, Renewed, Request, Response, TimedResponse, Version,
};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
const OWN_ID: OwnerId = OwnerId::new([9; 16]);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn acquisition(wait: Option<Duration>) -> Acquire {
    let timing = Timing::new(secs(30), None).expect("a valid ttl");
    let limits = WaitLimits {
        wait,
        connect: secs(60),
    };
    Acquire::new(OWN_ID, timing, Limit::ONE, limits, START)
}

fn timed_response(sent: BootInstant, outcome: Result<Response, Failure>) -> TimedResponse {
    TimedResponse {
        sent,
        received: sent,
        server_time: None,
        could_grant: true,
        could_release: true,
        outcome,
    }
}

fn failure(kind: FailureKind) -> Result<Response, Failure> {
    Err(Failure {
        kind,
        message: "a failure".to_owned(),
    })
}

fn record(renewals: u64, expiry: Expiry) -> LockRecord {
    LockRecord::never_held("init".parse().expect("a valid action")).with_lease(|lease| {
        lease.owner_id = Some(OwnerId::new([1; 16]));
        lease.version = Version {
            token: Token(17),
            renewals,
        };
        lease.holder = Holder::default();
        lease.ttl = secs(30);
        lease.held_for = secs(1);
        lease.renewed = Renewed::Ago(secs(1));
        lease.expiry = expiry;
    })
}

fn queue_state(lock_owner: QueueLockOwner, ahead: u64) -> QueueState {
    QueueState {
        lock_owner,
        ahead,
        is_behind_other: false,
        is_behind_mark: false,
        head_waiting_for: Some(secs(1)),
        database: None,
    }
}

/// Returns the version that an attempt takes over. None if the attempt acquires only a free record.
fn taken_over(request: &AcquireRequest) -> Option<Version> {
    match request.mode {
        AcquireMode::TakeOver { version, .. } => Some(version),
        AcquireMode::First | AcquireMode::IfFree | AcquireMode::AmongSlots { .. } => None,
    }
}

const LEFT: Expiry = Expiry::In(Duration::from_secs(25));

/// The server of a test: returns the record and the queue for its response to an attempt, a read or a queue entry.
type Server<'a> = &'a dyn Fn(BootInstant) -> (LockRecord, QueueState);

/// Passes the response of `server` to `request` to the acquisition.
fn respond(acquire: &mut Acquire, now: BootInstant, server: Server, request: &Request) {
    let (record, queue_state) = server(now);
    let response = match request {
        Request::Enqueue(_) => Response::Enqueued(record, queue_state),
        Request::TryAcquire(_) | Request::GetWithQueue(_) => {
            Response::NotAcquired(record, queue_state)
        }
        other => panic!("unexpected: {other:?}"),
    };
    acquire.handle_response(now, &timed_response(now, Ok(response)));
}

/// Runs the acquisition from `now` to the next attempt. `server` provides the responses and never grants the queue
/// lock. Returns the time of the attempt and the attempt.
fn until_attempt(
    acquire: &mut Acquire,
    mut now: BootInstant,
    server: Server,
) -> (BootInstant, AcquireRequest) {
    loop {
        match acquire.next(now) {
            NextRequest::Send(Request::TryAcquire(request)) => return (now, request),
            NextRequest::Send(request) => respond(acquire, now, server, &request),
            NextRequest::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
        assert!(now.since(START) < secs(300), "no attempt in 300 s");
    }
}

/// Sends the first attempt and passes the response of `server` to the acquisition.
fn first_attempt(acquire: &mut Acquire, server: Server) {
    send_first_attempt(acquire);
    let (record, queue_state) = server(START);
    acquire.handle_response(
        START,
        &timed_response(START, Ok(Response::NotAcquired(record, queue_state))),
    );
}

fn send_first_attempt(acquire: &mut Acquire) {
    assert!(matches!(
        acquire.next(START),
        NextRequest::Send(Request::TryAcquire(AcquireRequest {
            mode: AcquireMode::First,
            queue_lock: QueueLock::Available,
            ..
        }))
    ));
}

#[test]
fn lease_is_measured_from_the_send_time_of_the_attempt() {
    let mut acquire = acquisition(None);
    send_first_attempt(&mut acquire);
    acquire.handle_response(
        START + secs(1),
        &timed_response(
            START,
            Ok(Response::Granted(Token(5), 1, EarlierSessions::None)),
        ),
    );
    assert!(matches!(
        acquire.next(START + secs(1)),
        NextRequest::Granted(lease) if lease.sent == START && lease.grant.token == Token(5)
    ));
}

#[test]
fn waiter_sends_nothing_while_it_waits_for_the_queue_lock() {
    let server = |_| (record(0, LEFT), queue_state(QueueLockOwner::Known, 3));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    assert!(matches!(
        acquire.next(START),
        NextRequest::Send(Request::WaitTurn(_))
    ));
    let later = START + secs(3600);
    assert!(matches!(acquire.next(later), NextRequest::Wait(_)));
    assert_eq!(acquire.observed().map(|(_, ahead, _)| ahead), Some(3));
    acquire.handle_response(
        later,
        &timed_response(
            later,
            Ok(Response::Granted(Token(5), 1, EarlierSessions::None)),
        ),
    );
    assert!(matches!(acquire.next(later), NextRequest::Granted(lease) if lease.sent == later));
}

#[test]
fn queue_head_takes_over_a_record_that_did_not_change_for_a_ttl() {
    // By the server's clock, the lease does not expire during this test, so only the contender's own clock can permit
    // the take-over.
    let forever = Expiry::In(secs(999_999));
    let server = |_| (record(3, forever), queue_state(QueueLockOwner::Own, 0));
    let mut acquire = acquisition(None);
    first_attempt(&mut acquire, &server);
    let (at, request) = until_attempt(&mut acquire, START, &server);
    let waited = at.since(START);
    assert!(waited >= secs(30) && waited < secs(31), "{waited:?}");
    assert_eq!(
        taken_over(&request).map(|version| version.renewals),
        Some(3)
    );
}

#[test]
fn renewed_record_is_never_taken_over() {
    for lock_owner in [QueueLockOwner::Own, QueueLockOwner::Free] {
        let server = |now: BootInstant| {
            (
                record(now.since(START).as_secs() / 5, LEFT),
                queue_state(lock_owner, 0),
            )
        };
        let mut acquire = acquisition(Some(secs(200)));
        first_attempt(&mut acquire, &server);
        let mut now = START;
        loop {
            match acquire.next(now) {
                NextRequest::Send(request) => {
                    if let Request::TryAcquire(request) = &request {
                        assert_eq!(taken_over(request), None);
                    }
                    respond(&mut acquire, now, &server, &request);
                }
                NextRequest::Wait(until) => now = until,
                NextRequest::NotGranted(NotGranted::HeldByOther { .. }) => break,
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(now.since(START), secs(200));
    }
}

#[test]
fn expired_lease_is_not_taken_over_before_the_allowance_ends() {
    let expiring = |had_queue_lock_here: bool| {
        move |now: BootInstant| {
            let record = record(0, Expiry::Ago(now.since(START)))
                .with_lease(|lease| lease.had_queue_lock_here = had_queue_lock_here);
            (record, queue_state(QueueLockOwner::Own, 0))
        }
    };
    for (had_queue_lock_here, least, most) in [(true, 0.9, 1.0), (false, 5.0, 5.1)] {
        let server = expiring(had_queue_lock_here);
        let mut acquire = acquisition(None);
        first_attempt(&mut acquire, &server);
        let (at, request) = until_attempt(&mut acquire, START, &server);
        let waited = at.since(START).as_secs_f64();
        assert!(waited >= least && waited < most, "{waited}");
        assert_eq!(
            taken_over(&request).map(|version| version.renewals),
            Some(0)
        );
    }
}

#[test]
fn zero_wait_limit_ends_after_the_first_response() {
    let mut acquire = acquisition(Some(Duration::ZERO));
    first_attempt(&mut acquire, &|_| {
        (record(0, LEFT), queue_state(QueueLockOwner::Known, 0))
    });
    assert!(matches!(
        acquire.next(START),
        NextRequest::NotGranted(NotGranted::HeldByOther { .. })
    ));
}

#[test]
fn slow_contender_that_does_not_wait_takes_over_an_expired_lease() {
    let slow = Duration::from_millis(600);
    let mut acquire = acquisition(Some(Duration::ZERO));
    send_first_attempt(&mut acquire);
    let (record, queue) = (
        record(0, Expiry::Ago(secs(60))),
        queue_state(QueueLockOwner::Own, 0),
    );
    let now = START + slow;
    acquire.handle_response(
        now,
        &timed_response(START, Ok(Response::NotAcquired(record, queue))),
    );
    assert!(matches!(
        acquire.next(now),
        NextRequest::Send(Request::TryAcquire(request)) if taken_over(&request).is_some()
    ));
    let still_waits = |at| matches!(acquire.clone().next(at), NextRequest::Wait(_));
    assert!(still_waits(now + slow));
    assert!(!still_waits(now + 2 * slow));
}
