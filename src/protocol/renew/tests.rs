//! Tests of the renewals of one grant.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Liveness, RenewalOutcome, Renewals};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId, Token};
use crate::store::lost_grant::can_reassert;
use crate::store::{
    Failure, FailureKind, LockRecord, Loss, Pause, QueueLock, Response, Slot, TimedResponse,
};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

fn renewals() -> Renewals {
    renewals_with(Liveness::NotRequired)
}

fn renewals_with(liveness: Liveness) -> Renewals {
    let grant = Grant::new(OwnerId::new([1; 16]), Token(1));
    let timing = Timing::new(Duration::from_secs(30), None).expect("a valid ttl");
    Renewals::new(
        (grant, Limit::ONE),
        QueueLock::Available,
        timing,
        START,
        liveness,
    )
}

fn timed_response(sent: BootInstant, outcome: Result<Response, Failure>) -> TimedResponse {
    TimedResponse {
        sent,
        received: sent,
        server_time: None,
        could_grant: false,
        could_release: false,
        outcome,
    }
}

fn after(millis: u64) -> BootInstant {
    START + Duration::from_millis(millis)
}

#[test]
fn only_a_read_back_renewal_moves_the_deadline() {
    let mut renewals = renewals();
    let first = renewals.deadline();
    assert!(renewals.due(after(4_999)).is_none());
    assert!(renewals.due(after(5_000)).is_some());
    assert!(renewals.due(after(5_001)).is_none(), "one at a time");
    let failure = Failure {
        kind: FailureKind::Unknown,
        message: String::new(),
    };
    let outcome =
        renewals.handle_response(after(7_000), timed_response(after(5_000), Err(failure)));
    assert!(matches!(outcome, RenewalOutcome::Failed(_)));
    assert_eq!(renewals.deadline(), first);
    assert!(renewals.due(after(7_500)).is_some());
    let outcome = renewals.handle_response(
        after(9_000),
        timed_response(after(7_600), Ok(Response::Renewed(None))),
    );
    assert!(matches!(outcome, RenewalOutcome::Renewed(..)));
    let moved = renewals.deadline().kill.since(first.kill);
    assert_eq!(moved, Duration::from_millis(7_600));
}

#[test]
fn lost_lease_is_not_renewed() {
    let mut renewals = renewals();
    assert!(renewals.due(after(5_000)).is_some());
    let mut record = LockRecord::never_held("init".parse().expect("a valid action"));
    record.lease.version.token = Token(1);
    let outcome = renewals.handle_response(
        after(5_100),
        timed_response(after(5_000), Ok(Response::Lost(record))),
    );
    assert!(matches!(outcome, RenewalOutcome::Lost(Loss::TakenOver, _)));
    assert!(renewals.due(after(5_100)).is_none());
    assert!(renewals.wake_at().is_none());
    renewals.expedite(after(6_000));
    assert!(renewals.due(after(20_000)).is_none());
}

/// Returns the record of a free action whose latest token is 0, which is smaller than the token of the renewals.
fn older_record() -> LockRecord {
    LockRecord {
        fenced: true,
        ..LockRecord::never_held("init".parse().expect("a valid action"))
    }
}

#[test]
fn lost_grant_is_written_again_once_and_before_the_deadline() {
    let mut renewals = renewals();
    assert!(renewals.due(after(5_000)).is_some());
    let lost = || Ok(Response::Lost(older_record()));
    let outcome = renewals.handle_response(after(5_010), timed_response(after(5_000), lost()));
    assert!(matches!(
        outcome,
        RenewalOutcome::GrantLost { is_first: true }
    ));
    let request = renewals.due(after(5_010)).expect("the grant is written");
    let reassertion = request.reassertion.expect("the grant is written");
    assert!(reassertion.fenced);
    assert!(reassertion.renewals > 5_010);
    let outcome = renewals.handle_response(after(5_020), timed_response(after(5_010), lost()));
    assert!(matches!(
        outcome,
        RenewalOutcome::GrantLost { is_first: false }
    ));
    assert!(renewals.due(after(5_100)).is_none(), "the fence is locked");
    let request = renewals.due(after(5_520)).expect("it is tried again");
    assert!(request.reassertion.is_some());
    let unknown = Failure {
        kind: FailureKind::Unknown,
        message: String::new(),
    };
    renewals.handle_response(after(5_600), timed_response(after(5_520), Err(unknown)));
    let request = renewals.due(after(6_100)).expect("a plain renewal follows");
    assert!(request.reassertion.is_none());
    let outcome = renewals.handle_response(after(6_110), timed_response(after(6_100), lost()));
    assert!(matches!(
        outcome,
        RenewalOutcome::GrantLost { is_first: true }
    ));
    let term = renewals.deadline().term;
    assert!(renewals.due(term).is_none(), "the command is being stopped");
    renewals.continue_without_command();
    let request = renewals.due(term).expect("a plain renewal");
    assert!(request.reassertion.is_none());
    let outcome = renewals.handle_response(term, timed_response(term, lost()));
    assert!(matches!(outcome, RenewalOutcome::Lost(Loss::LostGrant, _)));
}

#[test]
fn lost_grant_is_not_written_to_a_paused_or_held_record() {
    let held = older_record().with_lease(|lease| lease.owner_id = Some(OwnerId::new([2; 16])));
    let paused = LockRecord {
        pause: Some(Box::new(Pause {
            until: String::new(),
            left: Duration::from_secs(1),
        })),
        ..older_record()
    };
    for record in [held, paused] {
        let mut renewals = renewals();
        assert!(renewals.due(after(5_000)).is_some());
        let lost = timed_response(after(5_000), Ok(Response::Lost(record)));
        let outcome = renewals.handle_response(after(5_010), lost);
        assert!(matches!(outcome, RenewalOutcome::Lost(Loss::LostGrant, _)));
        assert!(renewals.wake_at().is_none());
    }
}

#[test]
fn lost_grant_of_a_slot_is_written_again_if_the_limits_allow_it() {
    let other = |number, count| Slot {
        number,
        limit: Limit::new(NonZeroU32::new(count).expect("not 0")),
        lease: LockRecord::never_held("init".parse().expect("a valid action"))
            .with_lease(|lease| lease.owner_id = Some(OwnerId::new([2; 16])))
            .lease,
        sessions: None,
    };
    let shared = |slots| {
        let record = LockRecord {
            fenced: false,
            slots,
            ..older_record()
        };
        record.with_lease(|lease| lease.owner_id = Some(OwnerId::SHARED))
    };
    let is_written_again = |record: LockRecord| {
        let grant = Grant {
            slot: 2,
            ..Grant::new(OwnerId::new([1; 16]), Token(1))
        };
        let limit = Limit::new(NonZeroU32::new(2).expect("not 0"));
        can_reassert(&record, grant, limit)
    };
    let free = LockRecord {
        fenced: false,
        ..older_record()
    };
    assert!(is_written_again(free.clone()));
    assert!(is_written_again(shared(vec![])));
    assert!(is_written_again(shared(vec![other(1, 2)])));
    for refused in [
        shared(vec![other(1, 1)]),
        shared(vec![other(2, 2)]),
        shared(vec![other(1, 3), other(3, 3)]),
        LockRecord {
            fenced: true,
            ..free.clone()
        },
        free.with_lease(|lease| lease.version.token = Token(1)),
    ] {
        assert!(!is_written_again(refused.clone()), "{refused:?}");
    }
}

#[test]
fn required_heartbeat_allows_one_successful_renewal() {
    let mut renewals = renewals_with(Liveness::Pending);
    assert!(renewals.due(after(6_000)).is_none());
    assert!(renewals.is_silent());
    renewals.record_heartbeat();
    assert!(renewals.due(after(6_500)).is_some());
    let failure = Failure {
        kind: FailureKind::Unknown,
        message: String::new(),
    };
    renewals.handle_response(after(7_000), timed_response(after(6_500), Err(failure)));
    assert!(
        renewals.due(after(7_500)).is_some(),
        "the heartbeat still counts"
    );
    renewals.handle_response(
        after(7_600),
        timed_response(after(7_500), Ok(Response::Renewed(None))),
    );
    assert!(renewals.due(after(13_000)).is_none(), "no heartbeat since");
}

#[test]
fn repeated_disconnects_do_not_cause_a_burst_of_renewals() {
    let mut renewals = renewals();
    renewals.expedite(after(2_000));
    assert!(renewals.due(after(2_000)).is_some(), "due immediately");
    renewals.handle_response(
        after(2_001),
        timed_response(after(2_000), Ok(Response::Renewed(None))),
    );
    renewals.expedite(after(2_002));
    assert!(renewals.due(after(2_499)).is_none());
    assert!(renewals.due(after(2_500)).is_some());
}

#[test]
fn lease_is_not_renewed_once_the_command_has_to_be_stopped() {
    let mut renewals = renewals();
    let term = renewals.deadline().term;
    assert!(renewals.due(term).is_none());
    assert!(renewals.due(term - Duration::from_millis(1)).is_some());
}
