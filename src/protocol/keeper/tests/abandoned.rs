//! Unit tests of the lease of a dlock that has died.

use std::time::Duration;

use super::super::{Input, Keeper, KeeperSettings, LeftSessions, ReleaseEffort, Step, WorkEnd};
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId, Token};
use crate::protocol::acquire::WaitLimits;
use crate::protocol::renew::Liveness;
use crate::store::session::{FoundSessions, ServerInstance, SessionNote, SessionPolicy};
use crate::store::{
    Failure, FailureKind, HistoryOutcome, LockRecord, NotePlace, Noted, QueueLock, ReleaseRequest,
    Request, Response, RunRecord, SessionsLeft, TimedResponse,
};

const OWNER_ID: OwnerId = OwnerId::new([7; 16]);
const TOKEN: Token = Token(5);

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::new(Duration::from_millis(milliseconds))
}

/// Returns the lease, which lasts for ten seconds.
fn lease(policy: SessionPolicy) -> Keeper {
    let release = ReleaseRequest {
        run: Some(RunRecord {
            outcome: HistoryOutcome::Killed(9),
            waited: Duration::ZERO,
            duration: Duration::ZERO,
            sessions_ended: 0,
            processes_killed: 0,
            dlock_status: Some(137),
        }),
        ..ReleaseRequest::without_run(OWNER_ID, Some(TOKEN), QueueLock::Unavailable)
    };
    let settings = KeeperSettings {
        limit: Limit::ONE,
        timing: Timing::new(Duration::from_secs(30), None).expect("the ttl is long enough"),
        limits: WaitLimits {
            wait: None,
            connect: Duration::ZERO,
        },
        policy,
        liveness: Liveness::NotRequired,
        checks_address: false,
    };
    let deadline = Deadline {
        term: at(5_000),
        kill: at(10_000),
    };
    let end = WorkEnd {
        release,
        took: Duration::ZERO,
        sessions: LeftSessions::End,
        effort: ReleaseEffort::WithinLease,
    };
    let grant = Grant::new(OWNER_ID, TOKEN);
    Keeper::abandoned(grant, settings, deadline, end, at(0))
}

fn response(outcome: Result<Response, Failure>) -> Box<TimedResponse> {
    Box::new(TimedResponse {
        sent: at(0),
        received: at(0),
        server_time: None,
        could_grant: false,
        could_release: true,
        outcome,
    })
}

/// Returns the record of a holder whose command has sessions.
fn noted() -> Noted {
    Noted {
        place: NotePlace::Own,
        note: SessionNote {
            instance: ServerInstance {
                server: "db:3306/1".to_owned(),
                started: 1,
            },
            token: TOKEN,
            policy: SessionPolicy::Kill,
            sessions: Vec::new(),
        },
        text: String::new(),
    }
}

#[track_caller]
fn sent(lease: &mut Keeper, now: BootInstant) -> Request {
    match lease.poll(now) {
        Step::Send(request) => request,
        step => panic!("no request: {step:?}"),
    }
}

#[test]
fn sessions_end_before_the_release() {
    let mut lease = lease(SessionPolicy::Kill);
    assert!(matches!(sent(&mut lease, at(1)), Request::GetNote(_)));
    lease.handle(
        at(2),
        Input::Response(response(Ok(Response::Note(Some(Box::new(noted())))))),
    );
    assert!(matches!(sent(&mut lease, at(3)), Request::EndSessions(_)));
    let left = SessionsLeft {
        found: FoundSessions::default(),
        killed: vec![17],
        denied: Vec::new(),
        elsewhere: None,
    };
    lease.handle(
        at(4),
        Input::Response(response(Ok(Response::Sessions(Box::new(left))))),
    );
    let Request::Release(release) = sent(&mut lease, at(5)) else {
        panic!("no release");
    };
    assert_eq!((release.owner_id, release.token), (OWNER_ID, Some(TOKEN)));
    assert!(release.clears_sessions);
    let run = release.run.expect("the run is recorded");
    assert_eq!(run.sessions_ended, 1);
    lease.handle(at(6), Input::Response(response(Ok(Response::Released))));
    assert!(matches!(lease.poll(at(6)), Step::Over));
}

#[test]
fn sessions_of_another_holder_are_left_alone() {
    let mut lease = lease(SessionPolicy::Kill);
    assert!(matches!(sent(&mut lease, at(1)), Request::GetNote(_)));
    let other = LockRecord::never_held("init".parse().expect("a name"))
        .with_lease(|lease| lease.owner_id = Some(OwnerId::new([8; 16])));
    lease.handle(
        at(2),
        Input::Response(response(Ok(Response::Record(other)))),
    );
    // The release has the token, so it changes nothing.
    let Request::Release(release) = sent(&mut lease, at(3)) else {
        panic!("no release");
    };
    assert_eq!(release.token, Some(TOKEN));
    assert!(!release.clears_sessions);
}

#[test]
fn nothing_is_sent_after_the_end_of_the_lease() {
    for policy in [SessionPolicy::Kill, SessionPolicy::Ignore] {
        let mut lease = lease(policy);
        let mut now = at(0);
        while now < at(10_000) {
            match lease.poll(now) {
                Step::Send(_) => {
                    let failure = Failure::new(FailureKind::Unreachable, "no server");
                    lease.handle(now, Input::Response(response(Err(failure))));
                }
                Step::Wait(until) => now = until.expect("a time limit"),
                step => panic!("the lease lasts longer: {step:?}"),
            }
        }
        assert!(matches!(lease.poll(now), Step::Over));
    }
}
