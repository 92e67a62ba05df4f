//! Unit tests of the release.

use std::time::Duration;

use super::{ReleaseLimits, ReleaseStep, Released, Releasing};
use crate::lease::instant::BootInstant;
use crate::lease::{OwnerId, Token};
use crate::store::{
    Failure, FailureKind, HistoryOutcome, QueueLock, ReleaseRequest, Request, Response, RunHistory,
    RunRecord, TimedResponse,
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
fn exchange(
    releasing: &mut Releasing,
    now: BootInstant,
    outcome: Result<Response, Failure>,
) -> ReleaseRequest {
    let ReleaseStep::Send(Request::Release(request)) = releasing.next(now, false) else {
        panic!("no release");
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
    let step = releasing.next(NOW, false);
    assert!(
        matches!(step, ReleaseStep::Finished(Released::Recorded)),
        "{step:?}"
    );
}
