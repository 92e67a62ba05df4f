//! Unit tests of the release.

use std::time::Duration;

use super::{ReleaseLimits, ReleaseStep, Released, Releasing};
use crate::lease::instant::BootInstant;
use crate::lease::{OwnerId, Token};
use crate::store::{
    Failure, FailureKind, HistoryOutcome, LockRecord, Loss, QueueLock, ReleaseRequest, Request,
    Response, RunHistory, RunRecord, TimedResponse,
};

const NOW: BootInstant = BootInstant::new(Duration::from_secs(1000));

fn releasing(history: RunHistory) -> Releasing {
    let request = ReleaseRequest {
        run: Some(RunRecord {
            outcome: HistoryOutcome::Exited(0),
            waited: Duration::ZERO,
            duration: Duration::ZERO,
            sessions_ended: 0,
            processes_killed: 0,
            dlock_status: None,
        }),
        history,
        ..ReleaseRequest::without_run(OwnerId::new([7; 16]), Some(Token(5)), QueueLock::Available)
    };
    let limits = ReleaseLimits::until(NOW + Duration::from_secs(4));
    Releasing::new(request, false, limits, NOW)
}

/// Sends the next request at `now`, responds with `outcome`, and returns the request.
#[track_caller]
fn sent(
    releasing: &mut Releasing,
    now: BootInstant,
    outcome: Result<Response, Failure>,
) -> Request {
    let ReleaseStep::Send(request) = releasing.next(now, false) else {
        panic!("no request");
    };
    let response = TimedResponse {
        sent: now,
        received: now,
        server_time: None,
        could_grant: false,
        could_release: true,
        outcome,
    };
    releasing.handle_response(now, &response);
    request
}

#[track_caller]
fn exchange(
    releasing: &mut Releasing,
    now: BootInstant,
    outcome: Result<Response, Failure>,
) -> ReleaseRequest {
    match sent(releasing, now, outcome) {
        Request::Release(request) => request,
        other => panic!("no release: {other:?}"),
    }
}

/// Responds to the renewal that follows a release without a lease, and returns the next step.
#[track_caller]
fn after_check(releasing: &mut Releasing, outcome: Result<Response, Failure>) -> ReleaseStep {
    let request = sent(releasing, NOW, outcome);
    let Request::Renew(request) = request else {
        panic!("no renewal: {request:?}");
    };
    assert_eq!(request.queue_lock, QueueLock::Unavailable);
    assert_eq!(request.reassertion, None, "a release writes no grant");
    releasing.next(NOW, false)
}

/// Returns a record whose token is `token`, and which no process holds.
fn free_record(token: u64) -> LockRecord {
    let mut record = LockRecord::never_held("init".parse().expect("a name"));
    record.lease.version.token = Token(token);
    record
}

fn refused(kind: FailureKind) -> Result<Response, Failure> {
    Err(Failure::new(kind, "refused"))
}

#[test]
fn release_without_the_history_follows_if_the_history_cannot_be_written() {
    for kind in [FailureKind::Denied, FailureKind::NoTables] {
        let mut releasing = releasing(RunHistory::Written);
        let first = exchange(&mut releasing, NOW, refused(kind));
        assert_eq!(first.history, RunHistory::Written);
        let second = exchange(&mut releasing, NOW, Ok(Response::Released));
        assert_eq!(second.history, RunHistory::Skipped);
        assert!(second.run.is_some(), "a success is still recorded");
        let ReleaseStep::Finished(Released::Unrecorded(failure)) = releasing.next(NOW, false)
        else {
            panic!("the run is not in the history");
        };
        assert_eq!(failure.kind, kind);
    }
}

#[test]
fn release_is_refused_if_it_is_refused_without_the_history_too() {
    for history in [RunHistory::Written, RunHistory::Skipped] {
        let mut releasing = releasing(history);
        if history == RunHistory::Written {
            exchange(&mut releasing, NOW, refused(FailureKind::Denied));
        }
        exchange(&mut releasing, NOW, refused(FailureKind::Denied));
        let ReleaseStep::Wait(again) = releasing.next(NOW, false) else {
            panic!("no pause");
        };
        assert!(again > NOW);
        assert!(releasing.failure.is_some());
        exchange(&mut releasing, again, Ok(Response::Released));
        assert!(matches!(
            releasing.next(again, false),
            ReleaseStep::Finished(_)
        ));
    }
}

/// An error does not prove that the release was not committed.
#[test]
fn release_that_was_committed_before_it_was_refused_is_no_loss() {
    let mut releasing = releasing(RunHistory::Written);
    exchange(&mut releasing, NOW, refused(FailureKind::Denied));
    exchange(&mut releasing, NOW, Ok(Response::NotHolder(None)));
    let step = after_check(&mut releasing, Ok(Response::Lost(free_record(5))));
    assert!(
        matches!(step, ReleaseStep::Finished(Released::Recorded)),
        "{step:?}"
    );
}

#[test]
fn release_without_a_lease_finds_out_whether_the_database_has_lost_the_grant() {
    for (loss, token, expected) in [
        (None, 4, Loss::LostGrant),
        (Some(Loss::TakenOver), 4, Loss::LostGrant),
        (None, 5, Loss::TakenOver),
        (Some(Loss::TakenOver), 9, Loss::TakenOver),
    ] {
        let mut releasing = releasing(RunHistory::Written);
        exchange(&mut releasing, NOW, Ok(Response::NotHolder(loss)));
        let step = after_check(&mut releasing, Ok(Response::Lost(free_record(token))));
        let ReleaseStep::Finished(Released::NotHolder(found)) = step else {
            panic!("{step:?}");
        };
        assert_eq!(found, expected, "{loss:?} {token}");
    }
}

#[test]
fn release_of_a_revoked_lease_needs_no_check() {
    let mut releasing = releasing(RunHistory::Written);
    exchange(
        &mut releasing,
        NOW,
        Ok(Response::NotHolder(Some(Loss::Revoked))),
    );
    let step = releasing.next(NOW, false);
    let ReleaseStep::Finished(Released::NotHolder(Loss::Revoked)) = step else {
        panic!("{step:?}");
    };
}

#[test]
fn release_without_a_lease_is_a_loss_although_nothing_more_becomes_known() {
    for loss in [None, Some(Loss::TakenOver)] {
        let mut releasing = releasing(RunHistory::Written);
        exchange(&mut releasing, NOW, Ok(Response::NotHolder(loss)));
        let mut step = after_check(&mut releasing, refused(FailureKind::Unreachable));
        while let ReleaseStep::Wait(at) = step {
            if !releasing.in_flight && at < NOW + Duration::from_secs(4) {
                exchange(&mut releasing, at, refused(FailureKind::Unreachable));
            }
            step = releasing.next(at, false);
        }
        let ReleaseStep::Finished(Released::NotHolder(found)) = step else {
            panic!("{step:?}");
        };
        assert_eq!(found, Loss::TakenOver);
    }
}

/// Otherwise the lease would stay held until it expires.
#[test]
fn release_is_tried_again_if_the_server_had_not_applied_the_grant_yet() {
    let lags = [Ok(Response::Renewed(None)), refused(FailureKind::Unknown)];
    for lag in lags {
        let mut releasing = releasing(RunHistory::Written);
        exchange(&mut releasing, NOW, Ok(Response::NotHolder(None)));
        let ReleaseStep::Wait(again) = after_check(&mut releasing, lag) else {
            panic!("no pause");
        };
        exchange(&mut releasing, again, Ok(Response::Released));
        let step = releasing.next(again, false);
        assert!(
            matches!(step, ReleaseStep::Finished(Released::Recorded)),
            "{step:?}"
        );
    }
}
