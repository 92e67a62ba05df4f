//! Unit tests of the check of the address before the work starts.

use std::time::Duration;

use super::super::{Input, Keeper, KeeperSettings, Notice, PhaseKind, Step};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{OwnerId, Token};
use crate::protocol::acquire::WaitLimits;
use crate::protocol::renew::Liveness;
use crate::store::session::SessionPolicy;
use crate::store::{EarlierSessions, LockRecord, Request, Response, TimedResponse};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
pub(super) const OWNER_ID: OwnerId = OwnerId::new([7; 16]);
pub(super) const TOKEN: Token = Token(5);

/// Returns the settings of a lease of 30 s without a wait limit.
pub(in crate::protocol) fn settings(checks_address: bool) -> KeeperSettings {
    KeeperSettings {
        timing: Timing::new(Duration::from_secs(30), None).expect("the ttl is long enough"),
        limit: Limit::ONE,
        limits: WaitLimits {
            wait: None,
            connect: Duration::from_hours(1),
        },
        policy: SessionPolicy::Kill,
        liveness: Liveness::NotRequired,
        checks_address,
    }
}

/// Returns a keeper whose first attempt is granted the lease `waited` after its connection was opened, and the instant.
pub(super) fn granted(waited: Duration, checks_address: bool) -> (Keeper, BootInstant) {
    let mut keeper = Keeper::new(OWNER_ID, settings(checks_address), START);
    let now = START + waited;
    assert!(matches!(
        keeper.poll(now),
        Step::Send(Request::TryAcquire(_))
    ));
    let response = Box::new(TimedResponse {
        sent: now,
        received: now,
        server_time: None,
        could_grant: true,
        could_release: false,
        outcome: Ok(Response::Granted(TOKEN, 1, EarlierSessions::None)),
    });
    keeper.handle(now, Input::Response(response));
    (keeper, now)
}

fn record(owner_id: Option<OwnerId>) -> LockRecord {
    let mut record = LockRecord::never_held("init".parse().expect("a name"));
    record.lease.owner_id = owner_id;
    record.lease.version.token = TOKEN;
    record
}

fn is_ready(keeper: &mut Keeper) -> bool {
    std::iter::from_fn(|| keeper.notice()).any(|notice| notice == Notice::Ready)
}

#[test]
fn recent_or_unchecked_connection_is_not_checked() {
    for (waited, checks_address) in [(1, true), (60, false)] {
        let (mut keeper, now) = granted(Duration::from_secs(waited), checks_address);
        assert!(matches!(keeper.poll(now), Step::Wait(_)));
        assert!(is_ready(&mut keeper));
    }
}

#[test]
fn old_connection_is_checked_before_the_work_starts() {
    // A read that fails proves nothing.
    for found in [Some(record(Some(OWNER_ID))), None] {
        let (mut keeper, now) = granted(Duration::from_mins(1), true);
        assert!(matches!(keeper.poll(now), Step::ReadAddress(_)));
        assert!(!is_ready(&mut keeper));
        keeper.handle(now, Input::AddressRead(found.as_ref()));
        assert!(matches!(keeper.poll(now), Step::Wait(_)));
        assert!(is_ready(&mut keeper), "{found:?}");
    }
}

#[test]
fn read_that_does_not_end_delays_the_work_for_a_limited_time() {
    let (mut keeper, now) = granted(Duration::from_mins(1), true);
    assert!(matches!(keeper.poll(now), Step::ReadAddress(_)));
    let Step::Wait(Some(until)) = keeper.poll(now) else {
        panic!("the keeper waits for the read");
    };
    assert!(until <= now + Duration::from_secs(5), "{until:?}");
    assert!(!is_ready(&mut keeper));
    assert!(matches!(keeper.poll(until), Step::Wait(_)));
    assert!(is_ready(&mut keeper));
}

#[test]
fn grant_on_another_server_than_that_of_the_address_is_not_used() {
    let (mut keeper, now) = granted(Duration::from_mins(1), true);
    assert!(matches!(keeper.poll(now), Step::ReadAddress(_)));
    keeper.handle(now, Input::AddressRead(Some(&record(None))));
    assert!(!is_ready(&mut keeper));
    assert_eq!(keeper.phase(), PhaseKind::Acquiring);
    assert!(matches!(keeper.poll(now), Step::Reconnect));
    let Step::Send(Request::Release(release)) = keeper.poll(now) else {
        panic!("the contender frees what it may have on the other server");
    };
    assert_eq!(release.token, Some(TOKEN));
}

#[test]
fn contender_that_gives_up_during_the_check_releases_the_lease() {
    let (mut keeper, now) = granted(Duration::from_mins(1), true);
    assert!(matches!(keeper.poll(now), Step::ReadAddress(_)));
    keeper.handle(now, Input::GiveUp);
    assert!(matches!(keeper.poll(now), Step::Send(Request::Release(_))));
    assert!(!is_ready(&mut keeper));
}
