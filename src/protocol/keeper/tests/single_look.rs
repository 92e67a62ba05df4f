//! Unit tests of the look for the sessions of successful work.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{Input, LeftSessions, PhaseKind, ReleaseEffort, Step, WorkEnd};
use super::address::{OWNER_ID, TOKEN, granted};
use crate::store::session::CommandConnections;
use crate::store::{QueueLock, ReleaseRequest, Request};

/// The command has succeeded, so its sessions are only looked for, and a server that hangs must not delay the end of dlock.
#[test]
fn a_look_that_has_no_response_delays_the_release_by_half_a_second() {
    let (mut keeper, now) = granted(Duration::ZERO, false);
    assert!(matches!(keeper.poll(now), Step::Wait(_)));
    let connections = CommandConnections {
        pids: BTreeSet::from([1]),
        ..CommandConnections::default()
    };
    keeper.handle(now, Input::Connections(connections));
    let release = ReleaseRequest::without_run(OWNER_ID, Some(TOKEN), QueueLock::Available);
    let end = WorkEnd {
        release,
        took: Duration::ZERO,
        sessions: LeftSessions::Look,
        effort: ReleaseEffort::Brief {
            may_hand_off: false,
        },
    };
    keeper.handle(now, Input::WorkEnded(end));
    assert!(matches!(
        keeper.poll(now),
        Step::Send(Request::EndSessions(_))
    ));
    let Step::Wait(Some(until)) = keeper.poll(now) else {
        panic!("no limit");
    };
    assert_eq!(until, now + Duration::from_millis(500));
    keeper.poll(until);
    assert_eq!(keeper.phase(), PhaseKind::Releasing);
}
